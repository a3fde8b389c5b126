"""`tracer info`: what this host allows, which backend that makes usable, and the remedy where one is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracer.cli.options import Json

EXAMPLE = "tracer info --json"


@dataclass(frozen=True, slots=True)
class BackendState:
    """Whether a backend can be used here; `reason` and `remedy` where not."""

    usable: bool
    reason: str | None
    remedy: str | None


@dataclass(frozen=True, slots=True)
class Host:
    """Everything `info` shows. `features`: name to "yes", "no: reason", "unknown" (only root can see it) or a value."""

    kernel: str
    chosen: str | None
    backends: dict[str, BackendState]
    features: dict[str, str]


def command(as_json: Json = False) -> int:
    """Show what each backend can do here."""
    host = examine()
    if as_json:
        import json
        from dataclasses import asdict

        print(json.dumps(asdict(host), ensure_ascii=False, indent=2))
    else:
        print(host_text(host), end="")
    return 0


def examine() -> Host:
    """Asks the kernel and each backend, by trying; works without root, without bpf() and without tracefs."""
    from tracer.backends import BACKENDS
    from tracer.backends.without import VARIABLE, switched_off
    from tracer.cli.host import host_facts, kernel_release
    from tracer.errors import TracerError

    features = host_facts()
    if off := switched_off():
        features[VARIABLE] = ", ".join(off)
    states: dict[str, BackendState] = {}
    for name, make in BACKENDS.items():
        try:
            capabilities = make().capabilities()
        except TracerError as error:
            states[name] = BackendState(False, error.message, error.hint)
            continue
        except (ImportError, OSError) as error:
            # A broken installation of one backend must not hide the other one.
            states[name] = BackendState(False, f"it cannot be loaded: {error}", None)
            continue
        unusable = capabilities.unusable
        states[name] = (
            BackendState(True, None, None)
            if unusable is None
            else BackendState(False, unusable.reason, unusable.hint)
        )
        features = merged(features, name, capabilities.facts)
    chosen = next((name for name, state in states.items() if state.usable), None)
    return Host(kernel_release(), chosen, states, features)


def merged(known: dict[str, str], backend: str, facts: Mapping[str, str]) -> dict[str, str]:
    """Those known with those of a backend; where two say different things both stand, the second with its name."""
    result = dict(known)
    for name, state in facts.items():
        if result.setdefault(name, state) != state:
            result[f"{name} ({backend})"] = state
    return result


def host_text(host: Host) -> str:
    """The same for people."""
    chosen = host.chosen or "none: nothing can be traced here"
    lines = [f"kernel    {host.kernel}", f"chosen    {chosen}", "", "Backends"]
    for name, state in host.backends.items():
        lines.append(f"  {name:<8}{'usable' if state.usable else f'not usable: {state.reason}'}")
        if state.remedy:
            lines.append(f"{'':<10}remedy: {state.remedy}")
    lines += ["", "Features"]
    width = max(map(len, host.features), default=0) + 2
    lines += [f"  {name:<{width}}{state}" for name, state in host.features.items()]
    return "\n".join(lines) + "\n"
