"""Finds the code of a source file in a file: the rows of its line table, and its functions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from tracer.errors import NothingThere, TracerError, and_more, printable
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.lines.line_table import Sequence as Rows
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.files.paths import did_you_mean

_MOST_NAMED = 5
_ADDRESS = attrgetter("address")


def sequences_of(binary: Binary, source: str) -> list[Rows]:
    """The sequences of loaded code that have rows of the source file whose path ends in `source`. Raises `NothingThere`
    where there is none, `TracerError` where several source files may be meant.
    """
    shown, text = printable(binary.shown), printable(source)
    if binary.lines is None:
        raise NothingThere(
            f"{shown}: the file has no debug information, so its source lines are not known",
            "compile it with -g, or install its debug symbols",
        )
    sequences = [sequence for sequence in binary.lines.of_file(source) if _is_loaded(binary, sequence)]
    paths = sorted({row.path for sequence in sequences for row in sequence if row.path is not None and row.line})
    if not paths:
        name = source.rpartition("/")[2]
        near = did_you_mean(name, sorted(binary.lines.source_names() - {name}))
        raise NothingThere(f"{shown}: no code comes from a source file '{text}'", near)
    if len(paths) > 1:
        named = and_more(map(printable, paths[:_MOST_NAMED]), len(paths))
        raise TracerError(f"{shown}: '{text}' may be {len(paths)} source files: {named}", "write more of the path")
    return sequences


def of_source(binary: Binary, source: str, functions: Sequence[Function]) -> tuple[Function, ...]:
    """The functions among some whose first instruction comes from a source file. Raises as `sequences_of` does."""
    sequences = sorted(sequences_of(binary, source), key=lambda sequence: sequence[0].address)
    starts = [sequence[0].address for sequence in sequences]

    def begins_there(function: Function) -> bool:
        index = bisect_right(starts, function.address) - 1
        if index < 0:
            return False
        sequence = sequences[index]
        row = sequence[bisect_right(sequence, function.address, key=_ADDRESS) - 1]
        return row.path is not None

    return tuple(filter(begins_there, functions))


def _is_loaded(binary: Binary, sequence: Rows) -> bool:
    """Whether the file holds the code. Of a function that the linker dropped, rows stay at address 0 or beyond
    everything.
    """
    address = sequence[0].address
    return address != 0 and binary.code.executable(address)
