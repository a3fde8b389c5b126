"""How a walk ends where its copy of the stack does."""

from __future__ import annotations

import pytest

from tracer.resolve.unwind.registers import X86_64
from tracer.resolve.unwind.rules import OFFSET, Rule
from tracer.resolve.unwind.walker import (
    BROKEN,
    ELSEWHERE,
    GENERAL,
    LIMIT,
    NO_RULE,
    PLAIN,
    POINTER,
    SHORT,
    Short,
    Step,
    walk,
)

SP, COPIED = 0x7000, 32


def frame(size: int, kind: int = PLAIN) -> Step:
    """Of so many bytes from the stack pointer on, the return address in the last of them."""
    rule = Rule(X86_64.sp, size, None, {X86_64.ip: (OFFSET, -8)}, X86_64.ip, False)
    return Step(kind, 0, size, 0, rule if kind == GENERAL else None)


def ending(step: Step, fp: int = 0, most: int = 127) -> str:
    """Of a walk of one frame."""
    at = {X86_64.sp: SP, X86_64.ip: 0x1000, X86_64.fp: fp}
    stack = memoryview(bytes(COPIED)).cast("Q")
    return walk([at.get(number, 0) for number in X86_64.numbers], stack, X86_64, lambda ip, exact: step, most)[1]


@pytest.mark.parametrize("kind", [PLAIN, GENERAL])
@pytest.mark.parametrize("size", [COPIED + 8, 40_000])
def test_a_copy_that_ends_before_the_frame_tells_how_long_it_should_be(kind: int, size: int) -> None:
    found = ending(frame(size, kind))
    assert isinstance(found, Short) and (found, found.wanted) == (SHORT, size)


@pytest.mark.parametrize("fp", [0, SP, SP + 8])
def test_where_nothing_tells_of_the_caller_the_frame_pointer_does_not_either(fp: int) -> None:
    assert ending(Step(BROKEN), fp) == NO_RULE


def test_of_a_frame_pointer_both_words_are_wanted() -> None:
    found = ending(Step(POINTER), SP + COPIED)
    assert isinstance(found, Short) and found.wanted == COPIED + 16


@pytest.mark.parametrize(("size", "most", "wanted"), [(1 << 30, 127, ELSEWHERE), (COPIED + 8, 1, LIMIT)])
def test_no_longer_copy_is_wanted_where_it_would_not_help(size: int, most: int, wanted: str) -> None:
    found = ending(frame(size), most=most)
    assert (found, isinstance(found, Short)) == (wanted, False)
