"""The control block: what programs and user space tell each other, word by word."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator

import pytest

from tracer.backends.bcc.maps.control import Control, control_size


class Block:
    """A block of two generations, two lengths, two records and one mark, and the words that programs see."""

    def __init__(self) -> None:
        self.size = control_size(2, 2, 2, 1)
        self.fd = os.memfd_create("control")
        os.ftruncate(self.fd, mmap.PAGESIZE)
        self.control = Control(self.fd, 2, 2, 2, 1)

    def word(self, index: int) -> int:
        word: int = struct.unpack("=Q", os.pread(self.fd, 8, 8 * index))[0]
        return word

    def program_writes(self, index: int, value: int) -> None:
        os.pwrite(self.fd, struct.pack("=Q", value % 2**64), 8 * index)


@pytest.fixture
def block() -> Iterator[Block]:
    block = Block()
    yield block
    block.control.close()
    os.close(block.fd)


@pytest.mark.parametrize("code", [0, 1, 255, -1, 2**31 - 1, -(2**31)])
def test_the_code_of_an_exit_comes_back_with_its_sign(block: Block, code: int) -> None:
    assert block.control.exit_code() is None
    block.program_writes(0, (code & 0xFFFF_FFFF) + 1)
    assert block.control.exit_code() == code
    block.control.stop()
    assert block.control.exit_code() == code


def test_stopping_ends_all_hits(block: Block) -> None:
    block.control.stop()
    assert block.word(0) == 1
    assert block.control.exit_code() == 0


def test_the_start_is_told_and_nobody_is_woken(block: Block) -> None:
    block.control.start(12345, 77)
    assert [block.word(at) for at in (2, 3, 4)] == [77, 12345, 1]
    block.control.sleeps(True)
    assert block.word(4) == 2
    assert not block.control.hit
    block.program_writes(1, 1)
    assert block.control.hit


def test_each_map_has_its_own_generation_length_and_mark(block: Block) -> None:
    control = block.control
    control.next_generation(1)
    assert (control.generation(0), control.generation(1)) == (0, 1) == (block.word(5), block.word(6))
    block.program_writes(8, 5)  # made: of the second map whose length is asked for
    control.give(1, 2)
    control.give(1, -3)
    assert (block.word(8) + block.word(10)) % 2**64 == 4
    control.empty(1)
    assert (block.word(8) + block.word(10)) % 2**64 == 0
    assert block.word(9) == 0
    block.program_writes(13, 3 << 32 | 2)
    assert control.mark(0) == 3 << 32 | 2
    assert block.size == 8 * 14


def test_events_that_found_the_ring_full_are_pending_until_they_are_seen(block: Block) -> None:
    assert block.control.pending([0, 0]) == [0, 0]
    block.program_writes(12, 3)
    assert block.control.pending([0, 1]) == [0, 2]
