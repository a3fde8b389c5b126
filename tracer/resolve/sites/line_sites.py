"""A source line and a file → sites: `uprobe:/bin/app:src/shop.c:36`.

The code of a line may lie in many pieces: copies in every function that it was inlined into, copies of it on several
paths through one function, and parts that other lines come between, such as what is left to do after an inlined call,
or the steps of a `for` line. A hit shall mean that the line is reached, so parts are told from copies by their column:

* a piece begins at the first address that the compiler marks as the beginning of a statement (is_stmt);
* of the pieces in one function those count that begin at the column of the first: they are its copies.

Whoever wants another part of the line gives its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracer.dataclass import NamedTuple, replace
from tracer.errors import TracerError, printable
from tracer.kinds.model import AttachPoint
from tracer.kinds.site import FileSite, NoSuchLine, SiteLimit
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.lines.line_table import Row, Sequence
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.elf.symbols import is_cold
from tracer.resolve.functions.source_files import sequences_of
from tracer.resolve.safety.code import Range
from tracer.resolve.safety.placement import inside_function
from tracer.resolve.sites.function_sites import site_inside
from tracer.resolve.sites.leaving_out import leave_out

_MOST_NAMED = 5


def line_sites(point: AttachPoint, binary: Binary, limit: SiteLimit, left_out: list[str]) -> list[FileSite]:
    """The sites of a source line. Those that cannot be probed are left out where there are others, and `left_out` gets
    a line about them.

    Raises `NothingThere` where the file has no such line, `TracerError` where it is ambiguous or must not be probed.
    """
    assert point.source is not None
    shown, source = printable(binary.shown), printable(point.source)
    found = sequences_of(binary, point.source)
    addresses = _reached([each for sequence in found for each in _pieces(sequence, point, binary)])
    if not addresses:
        raise _no_code(point, shown, found)
    limit.check(len(addresses), f"{shown}: {source}:{point.line} begins at {len(addresses)} places")
    sites = []
    refused: list[TracerError] = []
    for address in addresses:
        try:
            sites.append(_site(point, binary, address))
        except ElfError as error:
            refused.append(error)
    leave_out(refused, len(addresses), left_out, "be probed", "places")
    return sites


class _Piece(NamedTuple):
    """The place where a piece of the line begins. A function's cold part lies elsewhere, under a name of its own."""

    function: str | int
    cold: bool
    address: int
    column: int


def _reached(pieces: list[_Piece]) -> list[int]:
    """The addresses of the pieces by which each function reaches the line."""
    columns: dict[str | int, int] = {}
    for each in sorted(pieces, key=lambda each: (each.cold, each.address)):
        columns.setdefault(each.function, each.column)
    return sorted({each.address for each in pieces if each.column == columns[each.function]})


def _pieces(sequence: Sequence, point: AttachPoint, binary: Binary) -> Iterator[_Piece]:
    """The contiguous pieces of the line."""
    begun = False
    around: Range | None = None
    for row in sequence:
        if row.path is None or row.line != point.line or (point.column and row.column != point.column):
            # Line 0 is what the compiler could give to no line: it does not end a piece.
            begun = begun and row.line == 0
            continue
        if begun and (around is None or around.holds(row.address)):
            continue
        begun = False
        if row.is_stmt:
            around = binary.code.range_at(row.address)  # a macro can put two functions on one line
            if around is not None and binary.unwinding.go:
                _, more = binary.stack_checks.body(around.start, around.end)
                if row.address >= more:
                    continue  # of no line, but the compiler says that where the function begins
            begun = True
            name, cold = (around.name or around.start, False) if around is not None else (row.address, False)
            if isinstance(name, str) and is_cold(name):
                name, cold = name.partition(".cold")[0], True
            yield _Piece(name, cold, row.address, row.column)


def _no_code(point: AttachPoint, shown: str, found: Iterable[Sequence]) -> NoSuchLine:
    rows = [row for sequence in found for row in sequence if row.path is not None and row.is_stmt and row.line]
    place = f"{printable(point.source or '')}:{point.line}"
    if point.column and (columns := sorted({row.column for row in rows if row.line == point.line})):
        hint = f"statements of that line begin at column {_listed(columns)}"
        return NoSuchLine(f"{shown}: no statement begins at {place}:{point.column}", hint)
    return NoSuchLine(f"{shown}: no code begins at {place}", _nearest(rows, point.line))


def _nearest(rows: list[Row], line: int) -> str | None:
    before = max((row.line for row in rows if row.line < line), default=None)
    after = min((row.line for row in rows if row.line > line), default=None)
    if before is None or after is None:
        only = after if before is None else before
        return None if only is None else f"the nearest line with code is {only}"
    return f"the nearest lines with code are {before} and {after}"


def _listed(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers[:_MOST_NAMED]))


def _site(point: AttachPoint, binary: Binary, address: int) -> FileSite:
    around = inside_function(binary.code, address)[1]
    column = f":{point.column}" if point.column else ""
    probe = f"uprobe:{binary.shown}:{point.source}:{point.line}{column}"
    if address != around.start or not binary.unwinding.go:
        return site_inside(binary, around, address, probe)
    behind, _ = binary.stack_checks.body(around.start, around.end)
    return replace(site_inside(binary, around, behind, probe), args=binary.function_args(around.name))
