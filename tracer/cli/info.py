"""`tracer info`: what this host allows, which backend that makes usable, and the remedy where one is not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.cli.options import BackendName, Json
from tracer.dataclass import dataclass

if TYPE_CHECKING:
    from tracer.lang.features import Feature
    from tracer.plan.states import Capabilities

EXAMPLE = "tracer info --json"

# linux/capability.h; only those that open a door for tracing.
_CAPABILITIES = {"CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_SYS_RESOURCE": 24, "CAP_PERFMON": 38, "CAP_BPF": 39}


@dataclass(frozen=True, slots=True)
class BackendState:
    """Whether a backend can be used here; `reason` and `remedy` where not."""

    usable: bool
    reason: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Construct:
    """Whether a backend can do something of the language here.

    `state` is "yes", "partly", "no" or "unknown" (only root can see it); `note` says how, what is missing, or why not.
    """

    state: str
    note: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """Everything `info` shows. `features`: name to "yes", "no: reason", "unknown" (only root can see it) or a value.
    `constructs`: name to backend to what that can do.
    """

    kernel: str
    chosen: str | None
    backends: dict[str, BackendState]
    features: dict[str, str]
    constructs: dict[str, dict[str, Construct]]


def command(
    as_json: Json = False, backend: Annotated[BackendName, typer.Option("--backend", hidden=True)] = "auto"
) -> int:
    """Show what each backend can do here."""
    host = examine(backend)
    if as_json:
        import json
        from dataclasses import asdict

        print(json.dumps(asdict(host), ensure_ascii=False, indent=2))
    else:
        print(host_text(host), end="")
    return 0


def examine(forced: str = "auto") -> Host:
    """Asks the kernel and each backend, by trying; works without root, without bpf() and without tracefs. `forced`: the
    backend that alone is to be chosen.
    """
    from tracer.backends.choose import BACKENDS
    from tracer.errors import TracerError
    from tracer.kernel.disabled import VARIABLE, switched_off
    from tracer.lang.features import FEATURES

    features = _host_facts()
    if off := switched_off():
        features[VARIABLE] = ", ".join(off)
    states: dict[str, BackendState] = {}
    constructs: dict[str, dict[str, Construct]] = {feature.name: {} for feature in FEATURES}
    for name, make in BACKENDS.items():
        try:
            capabilities = make().capabilities()
        except TracerError as error:
            states[name] = BackendState(False, error.message, error.hint)
            continue
        except (ImportError, OSError) as error:
            # A broken installation of one backend must not hide the other one.
            states[name] = BackendState(False, f"it cannot be loaded: {error}")
            continue
        unusable = capabilities.unusable
        states[name] = BackendState(True) if unusable is None else BackendState(False, unusable.reason, unusable.hint)
        features = merged(features, name, capabilities.facts)
        for feature in FEATURES:
            constructs[feature.name][name] = _construct(feature, capabilities)
    usable = [name for name, state in states.items() if state.usable and forced in ("auto", name)]
    chosen = usable[0] if usable else None
    return Host(os.uname().release, chosen, states, features, constructs)


def _host_facts() -> dict[str, str]:
    """Facts that belong to no backend, in the order in which they are shown."""
    import sys

    from tracer import __version__
    from tracer.kernel.lockdown import lockdown

    facts = {
        "tracer": __version__,
        "python": f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})",
        "machine": os.uname().machine,
        "processors": str(os.cpu_count() or 1),
        "privileges": _privileges(),
        "lockdown": lockdown(),
    }
    with suppress(OSError), open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        facts["perf_event_paranoid"] = file.read().strip()
    return facts


def _privileges() -> str:
    """The user and what that allows: `root`, or the user with the capabilities that matter (proc(5), CapEff)."""
    from tracer.host.stat import status_of

    user, held = os.geteuid(), 0
    with suppress(OSError):
        held = int(status_of("self").get("CapEff", "0"), 16)
    names = [name for name, number in _CAPABILITIES.items() if held >> number & 1]
    if user == 0 and len(names) == len(_CAPABILITIES):
        return "root, all capabilities"
    return f"{'root' if user == 0 else f'user {user}'}, {', '.join(names) or 'no capabilities'}"


def _construct(feature: Feature, capabilities: Capabilities) -> Construct:
    from tracer.plan.states import NEEDS_ROOT, Supported

    if capabilities.unusable not in (None, NEEDS_ROOT):
        return Construct("no")  # the backend's own reason is enough
    state = capabilities.features.get(feature, Supported())
    if state is None:
        return Construct("unknown")
    if isinstance(state, Supported):
        return Construct("partly" if state.but else "yes", state.but or state.how or None)
    return Construct("no", state.reason, state.hint)


def merged(facts_before: dict[str, str], backend: str, facts: Mapping[str, str]) -> dict[str, str]:
    """The facts that are known, and those of a backend. Where two differ both are shown, the second with the backend's
    name.
    """
    result = dict(facts_before)
    for name, state in facts.items():
        if result.setdefault(name, state) != state:
            result[f"{name} ({backend})"] = state
    return result


def host_text(host: Host) -> str:
    """The facts for people, in 80 columns."""
    chosen = host.chosen or "none: nothing can be traced here"
    lines = [f"kernel    {host.kernel}", f"chosen    {chosen}", "", "Backends"]
    for name, state in host.backends.items():
        lines += _wrapped(f"  {name}", "usable" if state.usable else f"not usable: {state.reason}", 10)
        if state.remedy:
            lines += _wrapped("", f"remedy: {state.remedy}", 10)
    lines += ["", "Features"]
    width = max(map(len, host.features), default=0) + 4
    for name, fact in host.features.items():
        lines += _wrapped(f"  {name}", "unknown without root" if fact == "unknown" else fact, width)
    lines += ["", "Constructs".ljust(_STATES_AT) + "".join(name.ljust(_STATE_WIDTH) for name in host.backends).rstrip()]
    for name, by_backend in host.constructs.items():
        lines += _construct_lines(name, by_backend)
    if any(construct.state == "unknown" for row in host.constructs.values() for construct in row.values()):
        lines.append("  (unknown: only root can see it)")
    return "\n".join(lines) + "\n"


_COLUMNS, _STATES_AT, _STATE_WIDTH = 80, 58, 9


def _construct_lines(name: str, by_backend: Mapping[str, Construct]) -> Iterator[str]:
    """A line of what each backend can do, then their notes, equal ones once."""
    *head, last = _wrapped("", name, 2, _STATES_AT - 2)
    yield from head
    states = [construct.state.ljust(_STATE_WIDTH) for construct in by_backend.values()]
    yield last.ljust(_STATES_AT) + "".join(states).rstrip()
    notes: dict[str, list[str]] = {}
    for backend, construct in by_backend.items():
        # That the other backend can stands beside it.
        remedy = construct.remedy if construct.remedy and not construct.remedy.startswith("--backend") else None
        if construct.note:
            notes.setdefault(construct.note + (f"; {remedy}" if remedy else ""), []).append(backend)
    for note, backends in notes.items():
        yield from _wrapped("", f"{', '.join(backends)}: {note}", 6)


def _wrapped(head: str, text: str, indent: int, columns: int = _COLUMNS) -> list[str]:
    """The text behind its head, from column `indent` on; a word that is too long stays whole."""
    from textwrap import wrap

    lines = wrap(text, max(columns - indent, 20), break_long_words=False, break_on_hyphens=False) or [""]
    return [(head if not number else "").ljust(indent) + line for number, line in enumerate(lines)]
