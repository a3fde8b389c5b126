"""Names of C++ and Rust as people write them and `nm -C` prints them, Rust's without hashes.

C++'s are read by the C++ runtime's own `__cxa_demangle`, Rust's, of both manglings, by the crate rustc-demangle
(multi-demangle brings it). Rust's older mangling looks like C++'s and ends in a hash:
`_ZN4core3fmt9Formatter3pad17h0123456789abcdefE`. The other is v0: `_RNvMs_NtCs1_4core3fmtNtB4_9Formatter3pad`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

from tracer.errors import TracerError
from tracer.resolve.elf.symbol_table import MAX_NAME

Demangler = Callable[[str], str | None]

MAX_TEXT = 1 << 14
"""Longer names serve nobody. With backward references 100 bytes can mean a name of a gigabyte."""

# What follows a dot is the linker's or LLVM's.
_RUST = re.compile(r"(_R[^.]*|_ZN.*17h[0-9a-f]{16}E)(?:\..*)?", re.S)
_GIVEN_UP = re.compile(r"\{(invalid syntax|recursion limit reached|size limit reached)\}")


@lru_cache(maxsize=1)
def demangler() -> Demangler:
    """A function from a mangled name to the readable one, None for names that are neither C++'s nor Rust's.

    Raises `TracerError` where there is no C++ runtime on this machine.
    """
    import ctypes

    library = None
    for name in ("libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"):
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    if library is None:
        raise TracerError(
            "C++ names cannot be read: there is no libstdc++ on this machine",
            "install libstdc++6, or write the name as it stands in the symbol table (_Z…)",
        )
    convert = library.__cxa_demangle
    convert.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
    convert.restype = ctypes.c_void_p
    release = ctypes.CDLL(None).free
    release.argtypes = (ctypes.c_void_p,)
    release.restype = None
    status = ctypes.c_int()

    def demangle(name: str) -> str | None:
        if name[:2] not in ("_Z", "_R") or len(name) >= MAX_NAME:
            return None
        rust = demangle_rust(name)  # of the older mangling C++'s makes a name too, with the hash and signs left in
        if rust is not None or name[1] == "R":
            return rust
        text = convert(name.encode("utf-8", "surrogateescape"), None, None, ctypes.byref(status))
        if not text:
            return None
        try:
            return ctypes.string_at(text).decode("utf-8", "backslashreplace")
        finally:
            release(text)

    return demangle


@lru_cache(maxsize=1)
def _of_rust() -> Callable[[str], str]:
    """A function from a name of Rust's to the readable one, or to itself where it is none or cannot be read here."""
    try:
        from multi_demangle import demangle_symbol
    except ImportError:  # a worker's interpreter, or a system without the package
        return str
    return partial(demangle_symbol, language="rust")


def demangle_rust(name: str) -> str | None:
    """The readable name, or None for what is no name of Rust's."""
    mangled = _RUST.fullmatch(name)
    if mangled is None or not name.isascii():
        return None
    text = _of_rust()(mangled[1])
    right = text != mangled[1] and len(text) <= MAX_TEXT and text.isprintable() and not _GIVEN_UP.search(text)
    return text if right else None
