"""What user space tells the kernel of the addresses on stacks that it was sent a copy of."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from tracer.backends.bcc.maps.stacks import Stacks
from tracer.lang.types import Stack, StackType, StringType, Symbol, SymbolType, TupleType
from tracer.resolve.unwind.walker import LAST, PLAIN, Step

PID = 4242


class Unwinder:
    wanted = 0

    def __init__(self) -> None:
        self.endings = Counter[str]()
        self.asked: list[tuple[Sequence[int | None], int, bool]] = []

    def unwind(
        self, pid: int, registers: Sequence[int | None], stack: memoryview, most: int,
        met: list[tuple[int, bool, Step]] | None = None, at_ns: int = 0, here: bool = True,
    ) -> Stack:  # fmt: skip
        assert met is not None and (pid, list(stack)) == (PID, [0])
        self.asked.append((registers, most, here))
        met += [(0x1000, True, Step(PLAIN, 0, 16)), (0x2000, False, Step(LAST))]
        return Stack(PID, (0x1000, 0x2000))

    def state(self, pid: int) -> int:
        return 3

    def space(self, pid: int, state: int, addresses: tuple[int, ...]) -> int:
        return pid | state << 32

    def altered(self) -> set[int]:
        return set()


def copy_of(at: int) -> bytes:
    number = 1 << 63 | at & (1 << 48) - 1
    return struct.pack("=8xQQQQQQ17Q", number, PID << 1 | 1, 127, 8, 0, 16, *range(17)) + bytes(16)


def test_a_copy_that_begins_at_a_caller_s_frame_goes_on_behind_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.kernel.bpf.map_update", lambda fd, place, rule: None)
    made, unwinder = Stacks(-1), Unwinder()
    made.unwinder = unwinder
    number = 1 << 63 | time.monotonic_ns() & (1 << 48) - 1
    header = struct.pack("=8xQQQQQQ17Q", number, PID << 1, 127, 8, 2, 16, *range(17))
    made.take(b"offset" + header + bytes(16) + struct.pack("=3Q", 0x5000, 0x6000, 0), 6)
    # The other registers are those of the hit, not of this frame.
    assert unwinder.asked == [([None] * 6 + [6, 7, 8] + [None] * 8, 125, False)]
    held = Stack(PID, (number,))
    assert made.resolving(lambda: held, StackType(127))() == Stack(PID, (0x5000, 0x6000, 0x1000, 0x2000))


def test_what_stands_beside_a_stack_stays_as_it_is() -> None:
    made = Stacks(-1)
    row = (Symbol(PID, 0x1000), Stack(PID, (0x2000,)), (b"text", Symbol(PID, 0x3000), Stack(PID, (0x4000,))))
    kind = TupleType((SymbolType(), StackType(1), TupleType((StringType(8), SymbolType(), StackType(1)))))
    found = made.resolving(lambda: row, kind)()
    assert found == row
    assert [type(each) for each in (*found, *found[2])] == [Symbol, Stack, tuple, bytes, Symbol, Stack]


def test_copies_that_were_under_way_add_no_rules_again(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[bytes] = []
    monkeypatch.setattr("tracer.kernel.bpf.map_update", lambda fd, place, rule: added.append(place))
    made = Stacks(-1)
    made.unwinder = Unwinder()
    at = time.monotonic_ns()
    for _ in range(9):
        made.take(copy_of(at), 0)
    assert len(added) == 2
    # The kernel has dropped the rules since, or it would have walked this one.
    made.take(copy_of(time.monotonic_ns()), 0)
    assert len(added) == 4
