"""The convention of a function, by its language and the processor."""

from __future__ import annotations

from tracer.kinds.arch import I386, X86_64, Arch
from tracer.resolve.dwarf.calls.i386 import I386Passing, UnknownPassing
from tracer.resolve.dwarf.calls.passing import GoPassing, Passing, RustPassing, SystemVPassing
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.unit import Entry


def passing_of(function: Entry, language: int, arch: Arch, file: str) -> Passing:
    """The convention of a function's language."""
    if arch is I386 and language != dw.GO:
        return (UnknownPassing if language == dw.RUST else I386Passing)(function, arch, file)
    if language == dw.RUST:
        return RustPassing(function, arch, file)
    if language == dw.GO:
        return GoPassing(function, arch, file)
    return (SystemVPassing if arch is X86_64 else Passing)(function, arch, file)
