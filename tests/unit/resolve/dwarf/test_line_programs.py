"""Any byte code yields the rows that pyelftools makes of it."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from elftools.dwarf.lineprogram import LineProgram
from elftools.dwarf.structs import DWARFStructs
from hypothesis import given, strategies as st

from tracer.resolve.dwarf.lines.headers import Header
from tracer.resolve.dwarf.lines.line_table import Row, decode

OPERANDS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
WANTED = {1: "/a.c", 3: "/b.h"}

numbers = st.binary(max_size=2).map(lambda data: bytes(byte | 0x80 for byte in data)) | st.just(b"")
leb = st.tuples(numbers, st.integers(0, 0x7F).map(lambda byte: bytes([byte]))).map(b"".join)
operations = st.one_of(
    st.sampled_from([bytes([op]) for op in (1, 6, 7, 8, 10, 11, *range(13, 256, 9))]),
    st.tuples(st.sampled_from([b"\2", b"\3", b"\4", b"\5", b"\x0c"]), leb).map(b"".join),
    st.binary(min_size=2, max_size=2).map(lambda data: b"\x09" + data),
    st.sampled_from([b"\4\1", b"\4\3"]),
    st.integers(0, 1 << 48).map(lambda address: b"\0\x09\2" + address.to_bytes(8, "little")),
    st.sampled_from([b"\0\1\1", b"\0\2\4\5"]),
)


def by_pyelftools(code: bytes, header: Header) -> list[list[Row]]:
    registers: Any = {
        "minimum_instruction_length": header.step, "maximum_operations_per_instruction": 1, "file_entry": [],
        "default_is_stmt": int(header.is_stmt), "line_base": header.line_base, "line_range": header.line_range,
        "opcode_base": len(OPERANDS) + 1,
    }  # fmt: skip
    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8, dwarf_version=5)
    sequences: list[list[Row]] = [[]]
    for entry in LineProgram(registers, BytesIO(code), structs, 0, len(code)).get_entries():
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            sequences[-1].append(Row(None, 0, 0, state.address, False))
            sequences.append([])
            continue
        row = Row(WANTED.get(state.file), state.line, state.column, state.address, bool(state.is_stmt))
        last = sequences[-1][-1] if sequences[-1] else None
        if row.path or last is None or last.path or bool(last.line) != bool(row.line):
            sequences[-1].append(row)
    return [each for each in sequences[:-1] if any(row.path for row in each)]


@given(st.lists(operations, max_size=60).map(b"".join), st.sampled_from([1, 4]), st.integers(1, 20))
def test_rows_are_those_of_pyelftools(code: bytes, step: int, line_range: int) -> None:
    header = Header([], [], 0, step, True, -5, line_range, OPERANDS)
    code += b"\0\1\1"
    assert [list(each) for each in decode(code, header, WANTED)] == by_pyelftools(code, header)
