"""Settings: the `config = { … }` block, and the environment, whose names have BPFTRACE_ or TRACER_ before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tracer.dataclass import replace
from tracer.errors import NOWHERE, Diagnostic, Span
from tracer.lang import suggest, unsupported
from tracer.lang.builtins.stacks import STACK_FRAMES_MOST
from tracer.lang.syntax.ast import Setting
from tracer.lang.typed import Config

LIMITS = {
    "max_strlen": (2, 1 << 16),
    "max_map_keys": (1, 1 << 24),
    "max_probes": (1, 1 << 20),
    "stack_frames": (1, STACK_FRAMES_MOST),
}
"""Least and largest value of each setting."""

WORDS = {"missing_probes": ("error", "warn", "ignore"), "unsafe_returns": ("false", "true")}
"""What each of the other settings can be."""

KNOWN = (*LIMITS, *WORDS)

_PREFIXES = ("bpftrace_", "tracer_")


def configure(
    settings: Iterable[Setting], environment: Mapping[str, str] | None = None
) -> tuple[Config, list[Diagnostic]]:
    """The configuration of a program; the environment wins over the program's text, as in bpftrace."""
    config, found = Config(), []
    for setting in settings:
        name = _plain(setting.name)
        if name in KNOWN:
            config, fault = _set(config, name, setting.value, setting.value_span)
        else:
            fault = _refuse(name, setting)
        if fault:
            found.append(fault)
    for variable in sorted(environment or ()):
        name = _plain(variable)
        if name in KNOWN and variable.lower() != name:
            config, fault = _set(
                config, name, (environment or {})[variable], NOWHERE, f" (environment variable {variable})"
            )
            if fault:
                found.append(fault)
    return config, found


def _plain(name: str) -> str:
    folded = name.lower()
    for prefix in _PREFIXES:
        folded = folded.removeprefix(prefix)
    return folded


def _set(config: Config, name: str, value: str, span: Span, origin: str = "") -> tuple[Config, Diagnostic | None]:
    if name in WORDS:
        words = WORDS[name]
        found = words[int(value)] if words == ("false", "true") and value in ("0", "1") else value.lower()
        if found not in words:
            return config, Diagnostic(f"{name} must be {' or '.join(words)}, not '{value}'{origin}", span)
        return _with(config, name, found == "true" if words == ("false", "true") else found), None
    least, most = LIMITS[name]
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
    if not least <= number <= most:
        return config, Diagnostic(f"{name} must be a number from {least} to {most}, not '{value}'{origin}", span)
    return _with(config, name, number), None


def _with(config: Config, name: str, value: int | str | bool) -> Config:
    changes: dict[str, Any] = {name: value}
    return replace(config, **changes)


def _refuse(name: str, setting: Setting) -> Diagnostic | None:
    if name in unsupported.SETTINGS_WITHOUT_MEANING:
        return Diagnostic(
            f"the setting {name} has no meaning here and is ignored",
            setting.span,
            "it tunes bpftrace itself",
            "warning",
        )
    if name in unsupported.SETTINGS:
        if (name, setting.value) in (
            ("stack_mode", "bpftrace"),
            ("print_maps_on_exit", "true"),
            ("print_maps_on_exit", "1"),
        ):
            return None
        message, hint = unsupported.phrase(f"the setting {name}", unsupported.SETTINGS[name])
        return Diagnostic(message, setting.span, hint)
    known = suggest.hint(name, KNOWN, "known are " + ", ".join(KNOWN))
    return Diagnostic(f"unknown setting '{setting.name}'", setting.span, known)
