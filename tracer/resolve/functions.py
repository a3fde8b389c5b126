"""The function part of an attach point → functions of one file.

`malloc`, `str*`, `memcpy@GLIBC_2.2.5` are names of the symbol table; a name that holds `::` or parentheses is a C++
name as people write it, with or without parameters (without: every overload). So is a plain name that is in no table.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence

from tracer.errors import TracerError
from tracer.regex import regex
from tracer.resolve.binary import Binary
from tracer.resolve.elf_layout import ElfError, printable
from tracer.resolve.files import NothingThere, did_you_mean, is_pattern, matcher
from tracer.resolve.symbol_table import Function
from tracer.resolve.symbols import is_cold, unique_places

_RECEIVER = regex(r"\(\*(?=\w)")
"""In the names of Go's methods an asterisk, and no wildcard: `main.(*Cart).Add`."""


def find_functions(binary: Binary, name: str, kind: str = "uprobe") -> tuple[Function, ...]:
    """The functions that a name or wildcard means, each place once, in order of address; () where there is none.

    Raises `ElfError` for the name of an indirect function. `kind` is for the hint alone.
    """
    symbols = binary.symbols
    # A name as it stands in the table comes first: Go's hold parentheses, asterisks and brackets. * alone is any.
    found = symbols.named(name) if name != "*" else ()
    if not found and is_pattern(name):
        matching = symbols.matching(matcher(_RECEIVER.sub("([*]", name)))
        functions = tuple([each for each in matching if not each[4]])  # ifunc; by its number in half the time
        if functions or not is_readable_cpp(name):
            return functions
    if not found and is_readable_cpp(name):
        return _by_cpp_name(binary, name)
    if found and all(each.ifunc for each in found):
        raise _indirect(binary, found[0], kind)
    if not found and re.fullmatch(r"[A-Za-z_]\w*", name) and symbols.has_cpp_names:
        try:
            return _by_cpp_name(binary, name)
        except TracerError:  # no demangler here: the name is simply not found
            binary.reproducible = False
            return ()
    return tuple(each for each in found if not each.ifunc)


def is_readable_cpp(name: str) -> bool:
    """Whether the name is written as in C++ source."""
    return "::" in name or "(" in name


def not_found(binary: Binary, name: str) -> NothingThere:
    """The error for a function that the file does not have."""
    symbols = binary.symbols
    shown, path = printable(name), printable(binary.shown)
    if is_pattern(name):
        message, near = f"{path}: no function matches '{shown}'", None
    elif symbols.imports(name):
        message = f"{path}: no function '{shown}': it is taken from another library"
        return NothingThere(message, f"trace it there: {_likely_library(binary)}:{shown}")
    else:
        message = f"{path}: no function '{shown}'"
        every = (each.name for each in symbols.functions)
        near = did_you_mean(name, map(binary.readable, every) if is_readable_cpp(name) else every)
    if symbols.stripped:
        message += ", and the file is stripped of all names but those it exports"
        advice = f"install its debug symbols, or give an address: uprobe:{path}:0x…"
    else:
        advice = f"`tracer list 'uprobe:{path}:*'` shows its functions"
    return NothingThere(message, near or advice)


def function_text(binary: Binary, address: int) -> str:
    """What the `func` built-in shows at an address: the function that holds it, "" where no symbol does."""
    function = binary.symbols.at(address)
    return "" if function is None else binary.function_text(function.name)


def _likely_library(binary: Binary) -> str:
    return "uprobe:libc" if binary.elf.needed == ("libc.so.6",) else "uprobe:LIBRARY"


def _indirect(binary: Binary, function: Function, kind: str) -> ElfError:
    """An IFUNC's symbol stands at code that chooses an implementation once, when the file is loaded."""
    code = binary.code
    names = set()
    for each in code.instructions(code.range_of(function)):
        relative = re.search(r"\[rip ([+-]) (0x[0-9a-f]+)\]", each.operands) if each.mnemonic == "lea" else None
        if relative is not None:
            target = each.address + each.size + int(relative[1] + relative[2], 16)
            candidate = code.symbols.at(target) if code.executable(target) else None
            if candidate is not None and candidate.address == target:
                names.add(candidate.name)
    common = os.path.commonprefix(sorted(names))  # noqa: RUF071 (these are names, not paths)
    if len(names) > 1 and len(common) > 4:
        hint = f"trace the implementations: {kind}:{printable(binary.shown)}:{printable(common)}*"
    elif names:
        hint = printable(f"trace the implementations: {', '.join(sorted(names)[:4])}")
    else:
        hint = "install the file's debug symbols, which name the implementations, and trace those"
    return ElfError(
        f"{printable(binary.shown)}: {printable(function.name)} is an indirect function: its symbol is no function"
        " but code that chooses one when the file is loaded",
        hint,
    )


# --- C++ names -----------------------------------------------------------------------------------------------------

# Words that the mangling abbreviates, so that they do not stand in the mangled name.
_ABBREVIATED = regex(r"std|string|allocator|basic_\w*|[io]o?stream|operator|const|unsigned|anonymous|namespace")


def _by_cpp_name(binary: Binary, pattern: str) -> tuple[Function, ...]:
    from tracer.resolve.demangle import demangler

    demangle = demangler()
    matches = matcher(pattern)
    with_parameters = "(" in pattern
    words = [] if "operator" in pattern else _plain_words(pattern)
    found = []
    for each in binary.symbols.functions:
        if each.name[:2] not in ("_Z", "_R") or each.ifunc or is_cold(each.name):
            continue
        if each.name[1] == "Z" and not all(word in each.name for word in words):
            continue
        readable = demangle(each.name)
        if readable is not None and (
            matches(readable) or (not with_parameters and matches(without_parameters(readable)))
        ):
            found.append(each)
    return unique_places(found)


def _plain_words(pattern: str) -> Sequence[str]:
    """Words that must stand in the mangled name too: a cheap test before demangling."""
    literal = re.sub(r"\[[^]]*\]", "*", pattern.partition("(")[0])
    words = [word for word in re.findall(r"[A-Za-z_]\w*", literal) if word.isascii()]
    return [word for word in words if not _ABBREVIATED.fullmatch(word)]


def without_parameters(readable: str) -> str:
    """`ns::f(int) const` → `ns::f`; the brackets of templates and `operator()` stay."""
    end = readable.rfind(")")
    depth = 0
    for index in range(end, -1, -1):
        depth += (readable[index] == ")") - (readable[index] == "(")
        if depth == 0:
            return readable[:index] if end >= 0 and index else readable
    return readable
