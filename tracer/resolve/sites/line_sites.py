"""Source lines and a file → sites: `uprobe:/bin/app:src/shop.c:36`, `uprobe:/bin/app@shop.c:30-40`, and each line of a
function, `uprobe:/bin/app@shop.c:total:*`.

The code of a line may lie in many pieces: copies in every function that it was inlined into, copies of it on several
paths through one function, and parts that other lines come between, such as what is left to do after an inlined call,
or the steps of a `for` line. A hit shall mean that the line is reached, so parts are told from copies by their column:

* a piece begins at the first address that the compiler marks as the beginning of a statement (is_stmt);
* of the pieces in one function those count that begin at the column of the first: they are its copies.

Whoever wants another part of the line gives its column. Each of several lines has the sites that it has alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tracer.dataclass import NamedTuple, replace
from tracer.errors import NoSuchLine, NothingThere, printable
from tracer.kinds.model import AttachPoint, SiteLimit
from tracer.kinds.site import FileSite
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.lines.line_table import Row, Sequence as Rows
from tracer.resolve.elf.symbols import is_cold
from tracer.resolve.functions.source_files import sequences_of
from tracer.resolve.safety.code import Range
from tracer.resolve.safety.placement import inside_function
from tracer.resolve.sites.function_sites import meant_functions, site_inside
from tracer.resolve.sites.leaving_out import leave_out, tried

if TYPE_CHECKING:
    from tracer.host.maps import Picture

_MOST_NAMED = 5


def line_sites(
    point: AttachPoint, binary: Binary, limit: SiteLimit, left_out: list[str], processes: Sequence[Picture] = ()
) -> list[FileSite]:
    """The sites of source lines. Those that cannot be probed are left out where there are others, and `left_out` gets a
    line about them. `processes`: see `function_sites`.

    Raises `NothingThere` where the file has no such line, `TracerError` where it is ambiguous or must not be probed.
    """
    assert point.source is not None
    sequences = sequences_of(binary, point.source)
    starts: list[int] = []
    wanted: Container[int] = range(point.line, max(point.line, point.last) + 1)
    if point.by_line:
        starts, wanted = _of_functions(point, binary, _path_of(sequences), left_out, processes)
    pieces = [piece for sequence in sequences for piece in _pieces(sequence, wanted, point.column, binary)]
    if starts and binary.symbols.has_mangled_names:
        from tracer.resolve.functions.function_lines import of_others

        others = of_others(binary, starts, {piece.address for piece in pieces})
        pieces = [piece for piece in pieces if piece.address not in others]
    places = _reached(pieces)
    if not places:
        raise _no_code(point, printable(binary.shown), sequences)
    limit.check(len(places), f"{printable(binary.shown)}: {_written(point)} begins at {len(places)} places")
    sites, refused = tried(partial(_site, point, binary), places)
    leave_out(refused, len(places), left_out, "be probed", "places")
    return sites


def _of_functions(
    point: AttachPoint, binary: Binary, path: str, left_out: list[str], processes: Sequence[Picture]
) -> tuple[list[int], set[int]]:
    """The start addresses of the functions that are meant, and their lines; of one without code those that its inlined
    copies have.
    """
    from tracer.resolve.functions.function_lines import lines_of

    try:
        functions = meant_functions(point, binary, processes, left_out)
    except NothingThere:
        from tracer.resolve.functions.inlined_copies import copied_lines
        from tracer.resolve.functions.lookup import meant_among

        meant = partial(meant_among, binary, point.name or "", point.cpp, True)
        lines = copied_lines(binary, meant, point.source or "", path)
        if not lines:
            raise
        return [], lines
    starts = [function.address for function in functions]
    return starts, lines_of(binary, starts, path)


def _path_of(sequences: Iterable[Rows]) -> str:
    """The one source file that the sequences are of."""
    return next(row.path for sequence in sequences for row in sequence if row.path is not None and row.line)


def _written(point: AttachPoint) -> str:
    """`shop.c:36`, `shop.c:30-40` or `shop.c:total:*`."""
    lines = f"{printable(point.name or '')}:*" if point.by_line else f"{point.line}"
    last = f"-{point.last}" if point.last > point.line else ""
    return f"{printable(point.source or '')}:{lines}{last}"


class _Piece(NamedTuple):
    """The place where a piece of a line begins. A function's cold part lies elsewhere, under a name of its own."""

    line: int
    function: str | int
    cold: bool
    address: int
    column: int


def _reached(pieces: list[_Piece]) -> list[tuple[int, int]]:
    """The lines and addresses of the pieces by which each function reaches each line."""
    columns: dict[tuple[int, str | int], int] = {}
    for piece in sorted(pieces, key=lambda piece: (piece.cold, piece.address)):
        columns.setdefault((piece.line, piece.function), piece.column)
    return sorted(
        {(piece.line, piece.address) for piece in pieces if piece.column == columns[piece.line, piece.function]}
    )


def _pieces(sequence: Rows, wanted: Container[int], column: int, binary: Binary) -> Iterator[_Piece]:
    """The contiguous pieces of the lines."""
    begun = 0  # the line of the piece
    around: Range | None = None
    for row in sequence:
        if row.path is None or row.line not in wanted or (column and row.column != column):
            # Line 0 is what the compiler could give to no line: it does not end a piece.
            begun = begun if row.line == 0 else 0
            continue
        if begun == row.line and (around is None or around.holds(row.address)):
            continue
        begun = 0
        if row.is_stmt:
            around = binary.code.range_at(row.address)  # a macro can put two functions on one line
            if around is not None and binary.unwinding.go:
                _, more = binary.stack_checks.body(around.start, around.end)
                if row.address >= more:
                    continue  # of no line, but the compiler says that where the function begins
            begun = row.line
            name, cold = (around.name or around.start, False) if around is not None else (row.address, False)
            if isinstance(name, str) and is_cold(name):
                name, cold = name.partition(".cold")[0], True
            yield _Piece(row.line, name, cold, row.address, row.column)


def _no_code(point: AttachPoint, shown: str, sequences: Iterable[Rows]) -> NoSuchLine:
    rows = [row for sequence in sequences for row in sequence if row.path is not None and row.is_stmt and row.line]
    if point.column and (columns := sorted({row.column for row in rows if row.line == point.line})):
        hint = f"statements of that line begin at column {_listed(columns)}"
        return NoSuchLine(f"{shown}: no statement begins at {_written(point)}:{point.column}", hint)
    near = None if point.by_line else _nearest(rows, point.line, max(point.line, point.last))
    return NoSuchLine(f"{shown}: no code begins at {_written(point)}", near)


def _nearest(rows: list[Row], first: int, last: int) -> str | None:
    before = max((row.line for row in rows if row.line < first), default=None)
    after = min((row.line for row in rows if row.line > last), default=None)
    if before is None or after is None:
        only = after if before is None else before
        return None if only is None else f"the nearest line with code is {only}"
    return f"the nearest lines with code are {before} and {after}"


def _listed(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers[:_MOST_NAMED]))


def _site(point: AttachPoint, binary: Binary, place: tuple[int, int]) -> FileSite:
    line, address = place
    around = inside_function(binary.code, address)[1]
    column = f":{point.column}" if point.column else ""
    probe = f"uprobe:{binary.shown}:{point.source}:{line}{column}"
    if address != around.start or not binary.unwinding.go:
        return site_inside(binary, around, address, probe)
    behind, _ = binary.stack_checks.body(around.start, around.end)
    return replace(site_inside(binary, around, behind, probe), args=binary.function_args(around.name))
