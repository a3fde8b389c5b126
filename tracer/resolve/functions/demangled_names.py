"""Finds functions by names as people write them and `nm -C` prints them: `Cart<int>::add(int)`, `*::add`.

A symbol's readable name may be written whole; without its parameters, which means every overload; without the return
type that stands before a template's name; or without both. Where one is written exactly so, whatever characters it
has (`f(char*)`, `operator[](int)`), it is meant alone. Else `*`, `?` and `[…]` are wildcards, and `*` stands for any
text, blanks and brackets too; but `[]`, `[abi:…]`, `[clone …]` and the ` [4]` of an array are themselves.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping

from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.elf.symbols import is_cold
from tracer.resolve.files.paths import is_pattern, matcher

_LITERAL_BRACKET = re.compile(r"\[(?=\]|abi:|clone |enable_if:)|(?<= )\[(?=\d+\])")

# What may follow the parameters; what may stand before a name and is no type (`non-virtual thunk to `).
_AFTER = re.compile(r"(?: const| volatile| &&?| \[clone [^\]]*\])*$")
_BEFORE = re.compile(r"(?:[A-Za-z-]+ )+(?:to|for) ")

# In the name of an operator neither a bracket nor a blank is what it is elsewhere.
_PIECE = re.compile(r"\boperator\b|[<({\[]|[>)}\]]| (?!(?:const|volatile|&&?)::)")

# `c++filt` writes these in full, `nm -C` and the C++ runtime do not.
_CHARS = "char, std::char_traits<char>"
_ABBREVIATIONS = {
    f"std::basic_string<{_CHARS}, std::allocator<char> >": "std::string",
    **{f"std::basic_{stream}<{_CHARS} >": f"std::{stream}" for stream in ("istream", "ostream", "iostream")},
}

_NO_PARAMETERS = re.compile(r"\(anonymous namespace\)|\boperator ?\(\)|\{[^{}]*\}")

_RUST_HASH = re.compile(r"17h[0-9a-f]{16}E")

_WILD = ("*", "?")

_SAID = (
    " Class TLS VTT _Accum _BitInt _Complex _Float _Fract _Imaginary _Sat __alignof__ __float128 __imag__ __int128"
    " __real__ __vector abi alias alignof allocator anonymous arg array as atomic auto basic_iostream basic_istream"
    " basic_ostream basic_string bfloat16_t bool boolean byte char char16_t char32_t char8_t char_traits class clone"
    " closure co_await complex const const_cast construction constructors covariant decimal128 decimal32 decimal64"
    " decltype default delete destructors double dyn dynamic_cast enable_if enum extern f128 f16 f32 f64 false float"
    " fn for function global guard half hidden i128 i16 i32 i64 i8 imaginary impl in init initializer int iostream"
    " isize istream java keyed lambda literal ll long module mut namespace new noexcept non nullptr nullptr_t object"
    " operator or ostream param parm reference reinterpret_cast requires resource restrict return shim short signed"
    " sizeof static_cast std str string struct template temporary this throw thunk to transaction transaction_safe"
    " true type typeid typeinfo typename u128 u16 u32 u64 u8 ull union unnamed unsafe unsigned usize virtual void"
    " volatile vtable wchar_t wrapper "
)
"""The words that demanglers write for a letter or two, or around a name (cp-demangle.c, rust-demangle.c of libiberty).
"""


def demangled_functions(
    functions: Iterable[Function], pattern: str, demangle: Callable[[str], str | None]
) -> list[Function]:
    """The functions that the pattern means by their readable names, in the order given. `demangle` gives that name, or
    None where a symbol's name is not mangled.
    """
    words = needed_words(pattern)
    in_full = any(full in pattern for full in _ABBREVIATIONS)
    if in_full:
        pattern = _abbreviated(pattern)
    matches = _matcher(pattern) if is_pattern(pattern) else None
    literal = max(re.split(r"\*|\?|\[[^]]*\]", pattern), key=len)
    exact: list[Function] = []
    matching: list[Function] = []
    for function in functions:
        name = function[0]
        if name[:2] not in ("_Z", "_R") or (name[1] == "Z" and not all([word in name for word in words])):
            continue
        readable = demangle(name)
        if readable is None:
            continue
        if in_full:
            readable = _abbreviated(readable)
        if pattern in readable and (pattern == readable or (pattern in spellings(readable) and not is_cold(name))):
            exact.append(function)
        elif matches is None or exact or literal not in readable:
            continue
        elif matches(readable) and (".cold" in pattern or not is_cold(name)):
            matching.append(function)
    return exact or matching


def of_one_crate(
    functions: Iterable[Function], name: str, demangle: Callable[[str], str | None]
) -> list[Function]:
    """The functions of Rust whose readable name is this one behind that of a crate, if all have the same."""
    word = name.rpartition("::")[2]
    readable = {function: demangle(function.name) for function in functions if word in function.name}
    named = {
        function: text
        for function, text in readable.items()
        if text is not None and _behind_crate(function.name, text) == name
    }
    return list(named) if len(set(named.values())) == 1 else []


def without_crate(readable: Mapping[str, str]) -> dict[str, str]:
    """Readable names of Rust without their crates, by the names in the symbol table, where no other function's is the
    same.
    """
    short = {name: text for name, whole in readable.items() if (text := _behind_crate(name, whole)) is not None}
    meant: dict[str, set[str]] = {}
    for name, text in short.items():
        meant.setdefault(text, set()).add(readable[name])
    taken = set(readable.values())
    return {name: text for name, text in short.items() if len(meant[text]) == 1 and text not in taken}


def _behind_crate(name: str, readable: str) -> str | None:
    """The part behind the crate in a name of Rust's that begins with one, if that has a module or a type."""
    crate, colons, rest = readable.partition("::")
    is_rust = name.startswith("_R") or _RUST_HASH.search(name) is not None
    return rest if is_rust and colons and "::" in rest and crate.isidentifier() else None


def _abbreviated(text: str) -> str:
    for full, short in _ABBREVIATIONS.items():
        text = text.replace(full, short)
    return text


def spellings(readable: str) -> tuple[str, ...]:
    """The ways in which a function may be written: whole, without parameters, without its return type, without both."""
    short = without_parameters(readable)
    start = _start_of_name(short)
    return readable, short, readable[start:], short[start:]


def without_parameters(readable: str) -> str:
    """A readable name without its parameters: `ns::f` of `ns::f(int) const`; templates and `operator()` keep theirs."""
    end = readable.rfind(")")
    if end < 0 or not _AFTER.match(readable, end + 1):
        return readable
    depth = 0
    for index in range(end, -1, -1):
        depth += (readable[index] == ")") - (readable[index] == "(")
        if depth == 0:
            return readable[:index] or readable
    return readable


def _start_of_name(short: str) -> int:
    """The place at which the name begins, behind a return type; `short` is without parameters."""
    if " " not in short or _BEFORE.match(short):
        return 0
    start = depth = 0
    for piece in _PIECE.finditer(short):
        text = piece.group()
        if text[:8] == "operator":
            if depth == 0:
                break  # the rest is its name: `operator new`, `operator unsigned long`
        elif text == " ":
            start = start if depth else piece.end()
        else:
            depth += 1 if text in "<({[" else -1
    return start


def _matcher(pattern: str) -> Callable[[str], object]:
    """A test whether any spelling of a readable name matches a pattern."""
    glob = _LITERAL_BRACKET.sub("[[]", pattern)
    matches = matcher(glob)
    cuts = not glob.endswith("*") and not _has_parameters(pattern)
    if not cuts and glob.startswith("*"):
        return matches
    # A cheap test before a name is taken apart: what stands before the name ends in a blank, what follows begins with
    # a parenthesis.
    whole = fnmatch.translate(glob)[: -len(r"\Z")]
    loose = re.compile(rf"(?s:.* )?{whole}{r'(?s:[(].*)?' if cuts else ''}\Z").match

    def test(readable: str) -> object:
        if matches(readable):
            return True
        if not loose(readable):
            return False
        _, short, named, named_short = spellings(readable)
        return matches(named) or (cuts and (matches(short) or matches(named_short)))

    return test


def _has_parameters(pattern: str) -> bool:
    """Whether the pattern says what the parameters are: an opening parenthesis that belongs to nothing else."""
    return "(" in _NO_PARAMETERS.sub("", pattern)


def needed_words(pattern: str) -> list[str]:
    """The words that must stand in the mangled name too, wherever the pattern matches: a cheap test before demangling.

    An identifier stands there as it is. What the demangler says of its own accord (`int`, `operator`, `std::string`)
    does not; neither need a part of a word, next to a wildcard, if it may be part of such a word.
    """
    words = []
    literal = re.sub(r"\[[^]]*\]", "*", _LITERAL_BRACKET.sub(" ", pattern))
    for word in re.finditer(r"(?<![\w'])[^\W\d]\w+", literal):
        before, after = literal[word.start() - 1 : word.start()], literal[word.end() : word.end() + 1]
        if before in _WILD or after in _WILD:
            said = word.group() in _SAID
        else:
            said = f" {word.group()} " in _SAID
        if not said and word.group().isascii():  # Rust writes others by numbers
            words.append(word.group())
    return words
