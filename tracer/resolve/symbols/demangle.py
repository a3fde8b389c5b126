"""C++ names as people write them, by the C++ runtime's own `__cxa_demangle`, and Rust's."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tracer.errors import TracerError
from tracer.resolve.elf.symbol_table import MAX_NAME
from tracer.resolve.symbols.demangle_rust import demangle_rust

Demangler = Callable[[str], str | None]


@lru_cache(maxsize=1)
def demangler() -> Demangler:
    """A function from a mangled name to the readable one, None for names that are neither C++'s nor Rust's.

    Raises `TracerError` where there is no C++ runtime on this machine.
    """
    import ctypes
    import ctypes.util

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
