"""The line table, as both read it: all rows of all line programs that a unit names."""

from __future__ import annotations

import os
import posixpath
from typing import Any

from tracer.resolve.dwarf.lines.headers import Unit, read_header, units
from tracer.resolve.dwarf.lines.line_table import decode, paths_of
from tracer.verify.files import Both, debug_information
from tracer.verify.findings import Findings

_Row = tuple[str | None, int, int, int, bool]


def lines(both: Both, findings: Findings) -> None:
    """Compares the line programs one by one."""
    debug = debug_information(both, findings)
    if debug is None:
        return
    entries, dwarf = debug
    data = findings.ours(lambda: entries.section(".debug_line"))
    names = findings.ours(lambda: entries.section(".debug_line_str"))
    places = {} if isinstance(data, str) else findings.ours(lambda: {program.start: program for program in units(data)})
    if isinstance(data, str) or isinstance(names, str) or isinstance(places, str):
        findings.same("the line table", (data, names, places), "read", counts=False)
        return
    seen = set()
    dwarf_units = iter(dwarf.iter_CUs())
    while (unit := findings.theirs(next, dwarf_units, None)) is not None:
        top = findings.theirs(unit.get_top_DIE)
        if top is None or "DW_AT_stmt_list" not in top.attributes:
            continue
        start = top.attributes["DW_AT_stmt_list"].value
        if start in seen:
            continue
        seen.add(start)
        program = findings.theirs(dwarf.line_program_for_CU, unit)
        theirs = None if program is None else findings.theirs(_theirs, program, _home(top))
        if theirs is None:
            continue
        rows = findings.ours(_ours, data, places.get(start), names, _home(top))
        _compare(findings, f"the line program at {start:#x}", rows, theirs)
    if len(places) > len(seen):
        findings.count_reason("no unit", len(places) - len(seen))


def _home(top: Any) -> bytes:
    """DW_AT_comp_dir."""
    value = top.attributes.get("DW_AT_comp_dir")
    return b"" if value is None or not isinstance(value.value, bytes) else value.value


def _compare(findings: Findings, what: str, ours: list[list[_Row]] | str, theirs: list[list[_Row]]) -> None:
    """Compares row by row; of a program that differs the first row that does."""
    if isinstance(ours, str):
        findings.same(what, ours, f"{sum(map(len, theirs))} rows")
        return
    mine, others = ([row for sequence in sequences for row in sequence] for sequences in (ours, theirs))
    if mine == others:
        for row in mine:
            findings.same(what, row, row)
        return
    for place, (row, other) in enumerate(zip(mine, others, strict=False)):
        if row != other:
            findings.same(f"{what}, row {place}", row, other)
            return
    findings.same(f"{what}, its rows", len(mine), len(others))


def _ours(data: bytes, unit: Unit | None, names: bytes, home: bytes) -> list[list[_Row]]:
    if unit is None:
        raise ValueError("there is no such line program")
    header = read_header(data, unit, names)
    sequences = decode(data[unit.code : unit.end], header, dict(paths_of(header, home)))
    return [[(row.path, row.line, row.column, row.address, row.is_stmt) for row in sequence] for sequence in sequences]


def _theirs(program: Any, home: bytes) -> list[list[_Row]]:
    """The rows as our reader has them: files without a name are none, whose rows in a run are one."""
    paths = _paths(program.header, home)
    sequences: list[list[_Row]] = [[]]
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        rows = sequences[-1]
        if state.end_sequence:
            rows.append((None, 0, 0, state.address, False))
            sequences.append([])
            continue
        path = paths.get(state.file)
        last = rows[-1] if rows else None
        if path or last is None or last[0] or bool(last[1]) != bool(state.line):
            rows.append((path, state.line, state.column, state.address, bool(state.is_stmt)))
    return [sequence for sequence in sequences[:-1] if any(row[0] for row in sequence)]


def _paths(header: Any, home: bytes) -> dict[int, str]:
    """The path of each file by the number that rows use."""
    modern = header["version"] >= 5
    directories = [bytes(directory) for directory in header["include_directory"]]
    if not modern:
        directories.insert(0, b"")
    base = posixpath.join(home, directories[0]) if directories else home
    result = {}
    for number, entry in enumerate(header["file_entry"], 0 if modern else 1):
        if entry.name:
            within = directories[entry.dir_index] if 0 < entry.dir_index < len(directories) else b""
            result[number] = os.fsdecode(posixpath.normpath(posixpath.join(base, within, entry.name)))
    return result
