"""Tables of lines: those of recorded functions of each version, and those of the Python that runs this."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import CodeType

import pytest

from tracer.resolve.interpreters.python.lines import line_of

# co_lnotab or co_linetable of one function, and what PyCode_Addr2Line of that version says of its code units, in turn
# (line*units; -1: none). Recorded with 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0.
RECORDED = [
    (8, "000204020c010401020102fe080302010a010e00067f007f0030", "4*2 6*6 7*2 8*1 9*1 7*4 10*1 11*5 12*10 314*2"),
    (9, "000204020c010401020102fe080302010a01127f007f0030", "4*2 6*6 7*2 8*1 9*1 7*4 10*1 11*5 12*9 314*2"),
    (
        10, "04020c0204010201020108fe02030801007f007f0431008100810ed0007f007f04300081008102d0",
        "4*2 6*6 7*2 8*1 9*1 7*4 10*1 11*4 314*2 12*7 314*2 12*1",
    ),
    (
        11, "8000e008098041e50d12903189588c58f00003050ff00003050f8801d808098d51d80c0dd80c0df105020e0ff400020e0ff1000209"
        "0f88018801f006020513dd080989038c0388038803f8dd0b0c804e804e804e88648864804ef8f8f8f05c09000c0d8048",
        "2*1 4*2 6*17 7*7 8*1 9*1 7*11 10*1 11*15 -1*1 12*12 -1*3 314*2",
    ),
    (
        12, "8000e008098041e40d1290318b59f20003050f8801d808098c51d80c0dd80c0df305020e0ff10002090f8901f00303050ff008020"
        "513dc08098c03f05e09000c0d8048f8f45d09000c0d824e8864f05c09000c0d8048f05d09000513fa",
        "2*1 4*2 6*14 7*6 8*1 9*1 7*8 6*1 10*1 11*10 314*2 -1*1 12*9 314*2 12*1 -1*3",
    ),
    (
        13, "8000e008098041e40d1290318e588801d808098c51d80c0dd80c0df305020e0ff10002090f8a01f103000e16f008020513dc08098"
        "c03f05e09000c0d8048f8f45d09000c0d834e8864f05c09000c0d8048f05d09000513fa",
        "2*1 4*2 6*14 7*6 8*1 9*1 7*9 6*2 10*1 11*10 314*2 -1*1 12*10 314*2 12*1 -1*3",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("minor", "table", "wanted"), RECORDED)
def test_recorded(minor: int, table: str, wanted: str) -> None:
    units = sum(int(part.partition("*")[2]) for part in wanted.split())
    lines = [line_of(minor, bytes.fromhex(table), 2, unit) or -1 for unit in range(units)]
    assert " ".join(f"{line}*{len(list(same))}" for line, same in groupby(lines)) == wanted
    assert line_of(minor, bytes.fromhex(table), 2, -1) == 2


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def test_every_instruction_of_a_module() -> None:
    path = argparse.__file__
    compared = 0
    for code in _codes(compile(Path(path).read_text(), path, "exec")):
        for start, end, line in code.co_lines():
            for unit in (start // 2, end // 2 - 1):
                assert line_of(sys.version_info[1], code.co_linetable, code.co_firstlineno, unit) == line
                compared += 1
    assert compared > 5000


@pytest.mark.parametrize("minor", [8, 10, 11, 14])
def test_tables_that_end_early(minor: int) -> None:
    for table in (b"", b"\xf0", b"\xe8", b"\x02"):
        for unit in (0, 5, 1 << 19):
            assert line_of(minor, table, 7, unit) in (7, None)


def test_a_number_without_end_is_no_line_of_thousands_of_digits() -> None:
    found = line_of(11, bytes((0xF0,)) + b"\x7f" * 4000, 7, 0)
    assert found is not None and len(str(found)) < 20
