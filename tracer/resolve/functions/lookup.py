"""Resolves the function part of an attach point to functions of one file.

`malloc`, `str*`, `memcpy@GLIBC_2.2.5` are names of the symbol table. What is not there, or could be no function of C,
is a name as people write it (`written_names`).
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from tracer.errors import NothingThere, TracerError, printable
from tracer.resolve.binary import Binary
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.elf.symbols import unique_places
from tracer.resolve.files.paths import did_you_mean, is_pattern, matcher

if TYPE_CHECKING:
    from tracer.host.maps import Picture

_WRITTEN = re.compile(r"::|[ (<{~,&]")

_NAMED = 3
"""The number of copies that a message names."""

_RECEIVER = re.compile(r"\(\*(?=\w)")
"""An asterisk that is no wildcard, in the names of Go's methods: `main.(*Cart).Add`."""


def find_functions(
    binary: Binary,
    name: str,
    kind: str = "uprobe",
    cpp: bool = False,
    processes: Sequence[Picture] = (),
    left_out: list[str] | None = None,
    meant: Callable[[Sequence[Function]], Sequence[Function]] = tuple,
) -> tuple[Function, ...]:
    """The functions that a name or wildcard means, each place once, in order of address; () where there is none. Those
    of another version than the default have that in their name. `cpp`: a wildcard means readable names too, though it
    might mean others.

    An indirect function is found where its implementation begins, as each of the `processes`, or else this one, runs
    it. Of a wildcard those of which that cannot be told are left out, and `left_out` gets a line about the `meant` ones
    among them; alone such a one is refused with `ElfError`. `kind` is for the hint.
    """
    symbols = binary.symbols
    # A name as it stands in the table comes first: Go's hold parentheses, asterisks and brackets. * alone is any.
    functions = symbols.named(name) if name != "*" else ()
    if not functions:
        test = matcher(_RECEIVER.sub("([*]", name)) if is_pattern(name) else None
        matching = symbols.matching(test, "@" in name, ".cold" in name) if test is not None else ()
        written = symbols.has_mangled_names and (cpp or is_demangled(name) or not matching)
        functions = unique_places([*matching, *_written(binary, name, symbols.functions)]) if written else matching
    if any([function[4] for function in functions]):  # ifunc; by its number in half the time
        from tracer.resolve.functions.indirect import implemented

        functions = implemented(binary, functions, kind, processes, left_out if left_out is not None else [], meant)
    return symbols.in_full(functions)


def meant_among(binary: Binary, name: str, cpp: bool, alone: bool, linked: Collection[str]) -> set[str]:
    """The names among some, as linkers have them, that a name or wildcard means, as `find_functions` takes it. `alone`:
    it means no function that has code of its own.
    """
    if name in linked and name != "*":
        return {name}
    test = matcher(_RECEIVER.sub("([*]", name)) if is_pattern(name) else None
    names = {linked_name for linked_name in linked if test is not None and test(linked_name)}
    if cpp or is_demangled(name) or (alone and not names):
        functions = [Function(linked_name, 0, 0) for linked_name in linked]
        names.update(function.name for function in _written(binary, name, functions))
    return names


def is_demangled(name: str) -> bool:
    """Whether the name holds what no symbol of C does, so that it is one of C++ or Rust as people write it."""
    return _WRITTEN.search(name) is not None


def _written(binary: Binary, name: str, functions: Iterable[Function]) -> Sequence[Function]:
    """The functions among some that have a readable name like this one."""
    from tracer.resolve.functions.demangled_names import demangled_functions, of_one_crate
    from tracer.resolve.symbols.demangle import demangler

    try:
        demangle = demangler()
    except TracerError:
        if is_demangled(name):
            raise
        binary.reproducible = False  # the name is simply not found
        return ()
    name, _, version = name.partition("@")
    matching = demangled_functions(functions, name, demangle)
    if not matching and is_demangled(name) and not is_pattern(name):
        matching = of_one_crate(functions, name, demangle)
    return [function for function in matching if function.version == version.lstrip("@")] if version else matching


def not_found(binary: Binary, name: str, returns: bool = False) -> NothingThere:
    """The error for a function that the file does not have. `returns`: for a probe at its returns."""
    symbols = binary.symbols
    shown, path = printable(name), printable(binary.shown)
    if is_pattern(name):
        message, near = f"{path}: no function matches '{shown}'", None
    elif symbols.imports(name):
        message = f"{path}: no function '{shown}': it is taken from another library"
        return NothingThere(message, f"trace it there: uprobe:{_holder(binary, name) or 'LIBRARY'}:{shown}")
    elif copies := [copy.name for copy in symbols.copies(name.partition("@")[0])]:
        listed = ", ".join(map(printable, copies[:_NAMED])) + (" and more" if len(copies) > _NAMED else "")
        message = f"{path}: no function '{shown}' of its own: the compiler made {listed} of it"
        return NothingThere(message, f"name that, or write {shown}* for all")
    else:
        message = f"{path}: no function '{shown}'"
        if (holder := _holder(binary, name)) is not None:
            return NothingThere(f"{message}: it is in {holder}", f"trace it there: uprobe:{holder}:{shown}")
        if (inlined := _inlined(binary, name)) is not None:
            from tracer.resolve.functions.inlining import COUNTED

            hint = f"probe one of them, or a line of its text: uprobe:{path}:FILE:LINE"
            hint = hint if returns else f"{COUNTED}; or {hint}"
            return NothingThere(f"{message} of its own: it was inlined {inlined}", hint)
        near = did_you_mean(name, names_to_suggest(binary, name))
    if symbols.stripped:
        message += ", and the file is stripped of all names but those it exports"
        advice = f"install its debug symbols, or give an address: uprobe:{path}:0x…"
    else:
        advice = f"`tracer list 'uprobe:{path}:*'` shows its functions"
    return NothingThere(message, near or advice)


def written_names(binary: Binary) -> dict[str, str]:
    """The names that people write, where they mean one place, by those of C++ and Rust in a file's symbol table."""
    texts = {function: binary.readable(function.name) for function in binary.symbols.functions}
    places: dict[str, set[int]] = {}
    for function, text in texts.items():
        places.setdefault(text, set()).add(function.address)
    return {function.name: text for function, text in texts.items() if text != function.name and len(places[text]) == 1}


def names_to_suggest(binary: Binary, name: str) -> Iterable[str]:
    """The names of a file's functions as people write them, with parameters where the name that is not there has some;
    Rust's without the crate, where only one function is called so.
    """
    names = [function.name for function in binary.symbols.functions]
    if not binary.symbols.has_mangled_names:
        return names
    from tracer.resolve.functions.demangled_names import without_crate, without_parameters

    readable = {linked: binary.readable(linked) for linked in names}
    short = without_crate({linked: text for linked, text in readable.items() if text != linked})
    shorten = str if "(" in name else without_parameters
    return [short.get(linked) or shorten(text) if text != linked else linked for linked, text in readable.items()]


def _inlined(binary: Binary, name: str) -> str | None:
    """The places at which a function without code stands in others, in words."""
    from tracer.resolve.functions.inlining import at_places, inlined_by_name

    try:
        inlined = inlined_by_name(binary.path, name)
    except TracerError:
        return None  # that there is no such function is true all the same
    return None if inlined is None else at_places(inlined)


def function_text(binary: Binary, address: int) -> str:
    """The value of the `func` built-in at an address: the function that holds it, "" where no symbol does."""
    function = binary.symbols.function_at(address)
    return "" if function is None else binary.function_text(function.name)


def _holder(binary: Binary, name: str) -> str | None:
    """The library among those that the file needs which has a function; None where there is none. What libpthread and
    libdl held is in libc since glibc 2.34, and they are empty.
    """
    from tracer.resolve.binary import Binaries
    from tracer.resolve.files.loaded import loaded_files

    with closing(Binaries()) as binaries:
        try:
            for path in loaded_files(binary.path)[1:]:
                if binaries.open(path).symbols.named(name):
                    return os.path.basename(path).partition(".so")[0]
        except TracerError:
            return None
    return None
