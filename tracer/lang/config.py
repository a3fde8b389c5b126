"""Settings: the `config = { … }` block, and the environment, whose names have BPFTRACE_ or TRACER_ before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tracer.dataclass import replace
from tracer.errors import NOWHERE, Diagnostic, Span
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
    "inlined": ("false", "true"),
    "show_stacks": ("false", "true"),
    "typed_retval": ("false", "true"),
    "print_maps_on_exit": ("true", "false"),
    "show_debug_info": ("false", "true"),
    "cpp_demangle": ("true", "false"),
}
"""The possible values of each of the other settings."""

TEXTS = ("str_trunc_trailer",)
"""Settings that can be any text."""

SETTINGS = (*LIMITS, *WORDS, *TEXTS)

OURS = (
    "stack_copy", "stack_frames", "stack_unwind", "unsafe_returns", "unsafe", "inlined", "show_stacks", "typed_retval",
)  # fmt: skip
MODES_OURS = ("python",)
"""Those of them, and of the modes of stacks, that bpftrace 0.27.1 does not have."""

TUNING: dict[str, int | bool | str] = {
    "cpp_demangle": True,
    "lazy_symbolication": True,
    "print_maps_on_exit": True,
    "use_blazesym": False,
    "show_debug_info": False,
    "log_size": 1000000,
    "max_bpf_progs": 1024,
    "max_cat_bytes": 10240,
    "max_map_keys": 16384,
    "max_probes": 16384,
    "max_strlen": 1024,
    "on_stack_limit": 32,
    "perf_rb_pages": 0,
    "str_trunc_trailer": "",
    "unstable_import_statement": "error",
    "unstable_tseries": "warn",
    "unstable_typeinfo": "error",
    "unstable_dw_ustack": "warn",
    "missing_probes": "error",
    "stack_mode": "bpftrace",
    "license": "GPL",
}
"""The settings of bpftrace in its order, and what they are unless they are set. The ones that are not settings here
have no effect: `config()` shows them. The exceptions are the features that bpftrace calls unstable.
"""

_STEADY = {"enable": "enable", "true": "enable", "warn": "warn", "error": "error", "false": "error"}
"""The settings of a feature that bpftrace calls unstable: as written in a program, and as `config()` shows them."""

_LICENSES = ("GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL")

UNTOLD = ("cache_user_symbols",)
"""Settings of bpftrace that its `config()` does not show."""

GONE = (
    "symbol_source", "max_type_res_iterations", "max_ast_nodes", "unstable_addr", "unstable_import", "unstable_macro",
    "unstable_map_decl",
)  # fmt: skip
"""Settings that have no effect in bpftrace any more."""


def told(config: Config) -> list[tuple[str, int | bool | str]]:
    """The settings as `config()` shows them."""
    tuned = {**TUNING, **dict(config.tuning)}
    return [(name, getattr(config, name) if name in SETTINGS else value) for name, value in tuned.items()]


def asked_of(config: Config, feature: str) -> str:
    """The program's setting for a feature that bpftrace calls unstable: enable, warn or error."""
    return str(dict(config.tuning).get(f"unstable_{feature}", "enable"))


_PREFIXES = ("bpftrace_", "tracer_")


def configure(
    settings: Iterable[Setting], environment: Mapping[str, str] | None = None, given: Mapping[str, str] | None = None
) -> tuple[Config, list[Diagnostic]]:
    """The configuration of a program; the environment wins over the program's text, as in bpftrace, and what is `given`
    for this run, by the names of the settings, over both.
    """
    config, diagnostics = Config(), []
    for setting in settings:
        name = _plain(setting.name)
        fault: Diagnostic | None
        if name == "unsafe":
            fault = Diagnostic("a program cannot allow itself to be unsafe", setting.span, "run it with --unsafe")
        elif name in SETTINGS:
            config, fault = _set(config, name, setting.value, setting.value_span)
        elif name in UNTOLD:
            continue
        elif name in TUNING:
            config, fault = _tuned(config, name, setting.value, setting.value_span)
        else:
            fault = _refuse(name, setting)
        if fault:
            diagnostics.append(fault)
    environment = environment or {}
    for variable in sorted(environment):
        name = _plain(variable)
        if name in (*SETTINGS, *TUNING) and variable.lower() != name:
            set_it = _set if name in SETTINGS else _tuned
            config, fault = set_it(config, name, environment[variable], NOWHERE, f" (environment variable {variable})")
            if fault:
                diagnostics.append(fault)
    for name, value in (given or {}).items():
        if name not in SETTINGS:
            raise ValueError(f"{name} is no setting")
        config, fault = _set(config, name, value, NOWHERE)
        if fault:
            diagnostics.append(fault)
    return config, diagnostics


def _plain(name: str) -> str:
    folded = name.lower()
    for prefix in _PREFIXES:
        folded = folded.removeprefix(prefix)
    return folded


def _set(config: Config, name: str, value: str, span: Span, origin: str = "") -> tuple[Config, Diagnostic | None]:
    if name in TEXTS:
        return _with(config, name, value), None
    if name in WORDS:
        words = WORDS[name]
        truth = set(words) == {"false", "true"}
        word = ("false", "true")[int(value)] if truth and value in ("0", "1") else value.lower()
        if word not in words:
            return config, Diagnostic(f"{name} must be {' or '.join(words)}, not '{value}'{origin}", span)
        return _with(config, name, word == "true" if truth else word), None
    least, most = LIMITS[name]
    number = _number(value)
    if not least <= number <= most:
        return config, Diagnostic(f"{name} must be a number from {least} to {most}, not '{value}'{origin}", span)
    return _with(config, name, number), None


def _number(text: str) -> int:
    """A number as people write it, -1 where it is none."""
    try:
        return int(text, 16 if text[:2].lower() == "0x" else 10) if text.isascii() and text.isalnum() else -1
    except ValueError:
        return -1


def _tuned(config: Config, name: str, value: str, span: Span, origin: str = "") -> tuple[Config, Diagnostic | None]:
    setting: int | bool | str = value
    wanted = ""
    if name.startswith("unstable_"):
        truth = "true" if _number(value) > 0 else "false" if _number(value) == 0 else value.lower()
        setting = _STEADY.get(truth, "")
        wanted = "" if setting else "enable, warn or error"
    elif name == "license":
        wanted = "" if value in _LICENSES else f"one that the kernel takes ({', '.join(_LICENSES)})"
    elif isinstance(TUNING[name], bool):
        wanted = "" if value in ("0", "1", "false", "true") else "true or false"
        setting = value in ("1", "true")
    else:
        setting = _number(value)
        wanted = "" if 0 <= setting < 1 << 63 else "a number"
    if wanted:
        return config, Diagnostic(f"{name} must be {wanted}, not '{value}'{origin}", span)
    return replace(config, tuning=(*config.tuning, (name, setting))), None


def _with(config: Config, name: str, value: int | str | bool) -> Config:
    changes: dict[str, Any] = {name: value}
    return replace(config, **changes)


def _refuse(name: str, setting: Setting) -> Diagnostic | None:
    if name in GONE:
        return Diagnostic(f"the setting {name} has no effect any more", setting.span, "leave it out", "warning")
    from tracer.lang import suggest

    listed = suggest.hint(name, SETTINGS, "known are " + ", ".join(name for name in SETTINGS if name != "unsafe"))
    return Diagnostic(f"unknown setting '{setting.name}'", setting.span, listed)
