"""The text of errors: the user's line, the fault marked under it, one message with its remedy.

    usdt:/bin/app:shop:order { @ = cout(); }
                                   ^^^^ error: unknown function "cout"; did you mean count?

Everything here returns text; `app` alone writes it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

from tracer.errors import NOWHERE, Diagnostic, ProgramError, Source, TracerError

TAB = 8
# Where stderr is no terminal nothing cuts a line, but a program of many kilobytes in one line helps nobody.
WIDTH_WITHOUT_TERMINAL = 200
MOST = 20
"""The most diagnostics that are shown."""
_NARROWEST = 20
_CUT = "…"
_NEAR = 4096
_LONG = re.compile(r"\S{1000,}")


def error_text(error: TracerError, verbose: bool = False, width: int | None = None, warnings: bool = True) -> str:
    """The text of an error for the user, ending in a newline; `verbose` adds the compiler's or verifier's own words;
    `warnings`: those beside the error are said too.
    """
    if isinstance(error, ProgramError):
        said = [diagnostic for diagnostic in error.diagnostics if warnings or diagnostic.severity == "error"]
        text = diagnostics_text(error.source, said, width)
    else:
        text = f"tracer: error: {_with_hint(error.message, error.hint)}\n"
    if verbose and error.detail:
        text += "".join(f"  {printable(line)}\n" for line in error.detail.splitlines())
    return text


def diagnostics_text(source: Source, diagnostics: Iterable[Diagnostic], width: int | None = None) -> str:
    """Prints each diagnostic under the line of `source` that it is about."""
    limit = max(width if width is not None else terminal_width(), _NARROWEST)
    listed = list(diagnostics)
    text = "".join(_diagnostic_text(source, diagnostic, limit) for diagnostic in listed[:MOST])
    return text if len(listed) <= MOST else f"{text}tracer: {len(listed) - MOST} more like these\n"


def terminal_width() -> int:
    """Columns of the terminal that stderr goes to."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH_WITHOUT_TERMINAL
    except (OSError, ValueError):  # ValueError: stderr is closed or has no descriptor
        return WIDTH_WITHOUT_TERMINAL


def printable(text: str) -> str:
    """Text that cannot steer the terminal: control characters (escape sequences among them) become U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    import unicodedata

    return "".join("\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs") else char for char in text)


def _diagnostic_text(source: Source, diagnostic: Diagnostic, width: int) -> str:
    message = f"{diagnostic.severity}: {_with_hint(diagnostic.message, diagnostic.hint)}"
    if diagnostic.span == NOWHERE:
        return f"{printable(source.name)}: {message}\n" if source.name != "-e" else f"tracer: {message}\n"
    start = min(diagnostic.span.start, len(source.text))
    line_start = source.text.rfind("\n", 0, start) + 1
    line_end = source.text.find("\n", start)
    line = source.text[line_start : line_end if line_end >= 0 else len(source.text)]
    # A span over several lines is marked on its first one.
    end = min(max(diagnostic.span.end, start), line_start + len(line))
    shown, before, marked = _window(line, start - line_start, end - line_start, width)
    heading = ""
    if (name := source.part(start)[1]) != "-e":
        heading = "{}:{}:{}\n".format(printable(name), *source.position(start))
    return f"{heading}{shown}\n{' ' * before}{'^' * marked} {message}\n"


def _with_hint(message: str, hint: str | None) -> str:
    text = message if hint is None else f"{message}; {hint}"
    return _LONG.sub(lambda word: f"{word[0][:100]}{_CUT}{word[0][-20:]}", " ".join(map(printable, text.splitlines())))


def _window(line: str, start: int, end: int, width: int) -> tuple[str, int, int]:
    """The part of `line` to show, the columns before the marked part in it, and the columns of the marked part."""
    cut = max(start - _NEAR, 0)  # of a line of a megabyte the place of the fault is enough
    shortened = line[cut : start + _NEAR]
    behind = cut + len(shortened) < len(line)
    line, start, end = shortened, start - cut, min(end - cut, len(shortened))
    cells = _cells(line)
    columns = [0]
    for cell in cells:
        columns.append(columns[-1] + _columns(cell, columns[-1]))
    first, last = 0, len(cells)
    if columns[-1] > width:
        # One third of the width before the fault keeps the message beside it on the screen.
        earliest = max(columns[start] - width // 3, 0)
        earliest = min(earliest, columns[-1] - width + 1)
        first = next(index for index, column in enumerate(columns) if column >= earliest)
        room = width - (1 if first else 0)
        last = first
        while last < len(cells) and columns[last + 1] - columns[first] <= room - (1 if last + 1 < len(cells) else 0):
            last += 1
    text = "".join(
        " " * (columns[index + 1] - columns[index]) if cells[index] == "\t" else cells[index]
        for index in range(first, last)
    )
    lead = _CUT if first or cut else ""
    before = len(lead) + columns[max(start, first)] - columns[first]
    marked = columns[min(end, last)] - columns[min(max(start, first), last)]
    return f"{lead}{text}{_CUT if last < len(cells) or behind else ''}", before, max(marked, 1)


def _cells(line: str) -> list[str]:
    """The characters of a line, one entry each, with what could steer the terminal replaced."""
    return [char if char == "\t" else printable(char) for char in line]


def _columns(char: str, column: int) -> int:
    if char == "\t":
        return TAB - column % TAB
    if char.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
