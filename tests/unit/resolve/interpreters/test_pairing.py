"""Native frames with those of an interpreter. Evaluations are the addresses from 100 on."""

from __future__ import annotations

import pytest

from tracer.resolve.interpreters.description import BOUNDARY, WHOLE, word
from tracer.resolve.interpreters.pairing import merged

A, B, C = (word(number, 5) for number in (1, 2, 3))
A1, B1, C1 = (word(number, 5, entry=True) for number in (1, 2, 3))

CASES = {
    "each evaluation has one frame (up to 3.10)": ([1, 100, 2, 101, 3], [A1, B1, WHOLE], 20, [1, A1, 2, B1, 3], True),
    "one has several, of which the last says so (3.11)": ([100, 2, 101], [A, B1, C1, WHOLE], 20, [A, B1, 2, C1], True),
    "a boundary says so (from 3.12 on)": (
        [100, 2, 101, 3], [A, B, BOUNDARY, C, BOUNDARY, WHOLE], 20, [A, B, 2, C, 3], True,
    ),
    "an evaluation that ends has none, and stays": (
        [1, 100, 2, 101], [BOUNDARY, B, BOUNDARY, WHOLE], 20, [1, 100, 2, B], True,
    ),
    "one that begins has none yet: the others are their callers'": (
        [1, 100, 2, 101], [A, BOUNDARY, WHOLE], 20, [1, 100, 2, A], True,
    ),
    "the native stack broke off": ([1, 100, 2], [A1, B1, C1, WHOLE], 20, [1, A1, 2, B1, C1], False),
    "the interpreter's broke off": ([1, 100, 2, 101], [A1], 20, [1, A1, 2, 101], False),
    "as many frames as are wanted": ([1, 100, 2, 101], [A, B, BOUNDARY, C], 3, [1, A, B], True),
    "no frames": ([1, 2], [WHOLE], 20, [1, 2], True),
    "no words": ([1, 100], [], 20, [1, 100], False),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_frames_stand_where_they_run(case: tuple[list[int], list[int], int, list[int], bool]) -> None:
    native, words, most, wanted, paired = case
    assert merged(native, words, lambda address: address >= 100, most) == (tuple(wanted), paired)
