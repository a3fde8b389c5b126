"""The parts of the fixed headers that a program needs. clang reads every function twice, and most programs call few."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_FUNCTION = re.compile(r"^static __always_inline [^;{}]*?(\w+)\([^;{}]*\)\n\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define (\w+)((?:.*\\\n)*.*\n)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")


def with_headers(text: str, folder: Path) -> str:
    """The program with the headers of `folder` in place of `#include "…"`, without the inline functions of theirs that
    nothing in it can call. A function is needed where a word that is its name stands in the program, in another needed
    function, in a macro whose own name is needed, or anywhere else outside of functions and macros.
    """
    whole = _included(text, folder)
    wanted = _wanted(whole)
    return _FUNCTION.sub(lambda function: function[0] if function[1] in wanted else "", whole)


def _included(text: str, folder: Path) -> str:
    def header(include: re.Match[str]) -> str:
        return _included(_COMMENT.sub("", (folder / include[1]).read_text()), folder)

    return _INCLUDE.sub(header, text)


def _wanted(text: str) -> set[str]:
    """The names of functions and macros that can be reached, among other words."""
    bodies: dict[str, list[str]] = {}  # several for a name that a switch decides about

    def kept_apart(definition: re.Match[str]) -> str:
        bodies.setdefault(definition[1], []).append(definition[0])
        return "\n"

    rest = _MACRO.sub(kept_apart, _FUNCTION.sub(kept_apart, text))
    wanted: set[str] = set()
    ahead = set(_words(rest))
    while ahead:
        name = ahead.pop()
        wanted.add(name)
        for body in bodies.pop(name, ()):
            ahead.update(word for word in _words(body) if word not in wanted)
    return wanted


def _words(text: str) -> Iterator[str]:
    return (match[0] for match in _WORD.finditer(text))
