"""Settings: the `config = { … }` block, and the environment, whose names have BPFTRACE_ or TRACER_ before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tracer.dataclass import replace
from tracer.errors import NOWHERE, Diagnostic, Span
from tracer.lang import suggest, unsupported
from tracer.lang.syntax.ast import Setting
from tracer.lang.typed import Config
from tracer.lang.types import STACK_FRAMES_MOST, STACK_MODES

LIMITS = {
    "max_strlen": (2, 1 << 16),
    "max_map_keys": (1, 1 << 24),
    "max_probes": (1, 1 << 20),
    "max_cat_bytes": (1, 1 << 20),
    "stack_copy": (512, 65024),
    "stack_frames": (1, STACK_FRAMES_MOST),
}
"""Least and largest value of each setting."""

WORDS = {
    "missing_probes": ("error", "warn", "ignore"),
    "stack_mode": STACK_MODES,
    "stack_unwind": ("auto", "fp", "dwarf"),
    "unsafe_returns": ("false", "true"),
    "unsafe": ("false", "true"),
    "print_maps_on_exit": ("true", "false"),
    "show_debug_info": ("false", "true"),
    "cpp_demangle": ("true", "false"),
}
"""What each of the other settings can be."""

KNOWN = (*LIMITS, *WORDS)

TUNING: dict[str, int | bool | str] = {
    "cpp_demangle": True,
    "lazy_symbolication": True,
    "use_blazesym": True,
    "show_debug_info": False,
    "cache_user_symbols": "PER_PID",
    "log_size": 1000000,
    "max_bpf_progs": 1024,
    "on_stack_limit": 32,
    "perf_rb_pages": 64,
    "unstable_import_statement": "error",
    "unstable_tseries": "enable",
    "unstable_typeinfo": "error",
    "unstable_dw_ustack": "warn",
    "license": "GPL",
}
"""Settings that tune bpftrace itself, and what they are unless they are set: all they do here is to be told, but for
those that are settings here too.
"""

GONE = (
    "symbol_source", "max_type_res_iterations", "max_ast_nodes", "unstable_addr", "unstable_import", "unstable_macro",
    "unstable_map_decl",
)  # fmt: skip
"""Settings that have no effect in bpftrace any more."""


def told(config: Config) -> list[tuple[str, int | bool | str]]:
    """What `config()` says."""
    sizes = ("max_strlen", "max_map_keys", "max_probes", "max_cat_bytes")
    own = (*sizes, "print_maps_on_exit", "missing_probes", "stack_mode")
    tuned = {**TUNING, **dict(config.tuning), **{name: getattr(config, name) for name in TUNING if name in KNOWN}}
    return [*((name, getattr(config, name)) for name in own), *tuned.items()]


_PREFIXES = ("bpftrace_", "tracer_")


def configure(
    settings: Iterable[Setting], environment: Mapping[str, str] | None = None
) -> tuple[Config, list[Diagnostic]]:
    """The configuration of a program; the environment wins over the program's text, as in bpftrace."""
    config, found = Config(), []
    for setting in settings:
        name = _plain(setting.name)
        fault: Diagnostic | None
        if name == "unsafe":
            fault = Diagnostic("a program cannot allow itself to be unsafe", setting.span, "run it with --unsafe")
        elif name in KNOWN:
            config, fault = _set(config, name, setting.value, setting.value_span)
        elif name in TUNING:
            config, fault = _tuned(config, name, setting)
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
        truth = set(words) == {"false", "true"}
        found = ("false", "true")[int(value)] if truth and value in ("0", "1") else value.lower()
        if found not in words:
            return config, Diagnostic(f"{name} must be {' or '.join(words)}, not '{value}'{origin}", span)
        return _with(config, name, found == "true" if truth else found), None
    least, most = LIMITS[name]
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
    if not least <= number <= most:
        return config, Diagnostic(f"{name} must be a number from {least} to {most}, not '{value}'{origin}", span)
    return _with(config, name, number), None


def _tuned(config: Config, name: str, setting: Setting) -> tuple[Config, Diagnostic | None]:
    value: int | bool | str = setting.value
    if isinstance(TUNING[name], bool):
        if value not in ("0", "1", "false", "true"):
            return config, Diagnostic(f"{name} must be true or false, not '{value}'", setting.value_span)
        value = value in ("1", "true")
    elif isinstance(TUNING[name], int):
        if not (setting.value.isascii() and setting.value.isdigit() and len(setting.value) < 19):
            return config, Diagnostic(f"{name} must be a number, not '{value}'", setting.value_span)
        value = int(value)
    return replace(config, tuning=(*config.tuning, (name, value))), None


def _with(config: Config, name: str, value: int | str | bool) -> Config:
    changes: dict[str, Any] = {name: value}
    return replace(config, **changes)


def _refuse(name: str, setting: Setting) -> Diagnostic | None:
    if name in GONE:
        return Diagnostic(f"the setting {name} has no effect any more", setting.span, "leave it out", "warning")
    if name in unsupported.SETTINGS and setting.value:
        message, hint = unsupported.phrase(f"the setting {name}", unsupported.SETTINGS[name])
        return Diagnostic(message, setting.span, hint)
    if name in unsupported.SETTINGS:
        return None  # empty, it is as here
    known = suggest.hint(name, KNOWN, "known are " + ", ".join(name for name in KNOWN if name != "unsafe"))
    return Diagnostic(f"unknown setting '{setting.name}'", setting.span, known)
