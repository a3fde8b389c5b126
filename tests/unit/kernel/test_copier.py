"""What the copier takes out of rings is what was in them, whatever the order in which room is taken and given back."""

from __future__ import annotations

import random

import pytest

from tracer.kernel.workers.copier import _Copying, _Memory

SIZE = 4096


class FakeRing:
    """A ring whose bytes are known; a record is a word."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.head = self.tail = 0

    def write(self, words: int) -> None:
        self.head = min(self.head + 8 * words, self.tail + SIZE // 2)

    def contents(self, start: int, stop: int) -> bytes:
        return b"".join((self.number << 32 | at).to_bytes(8, "little") for at in range(start, stop, 8))

    @property
    def span(self) -> tuple[int, int]:
        return self.tail, self.head

    def copy(self, tail: int, head: int, to: memoryview) -> None:
        to[:] = self.contents(tail, head)

    def advance(self, head: int) -> None:
        self.tail = head


def copying(rings: list[FakeRing]) -> tuple[_Copying, _Memory]:
    memory = _Memory(SIZE, len(rings))
    return _Copying(rings, memory), memory  # type: ignore[arg-type]


def taken(memory: _Memory, number: int) -> list[bytes]:
    return [bytes(block) for block in memory.round(number).blocks]


PUBLISHED, FREED, FULL = range(3)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_copied_is_read_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    rings = [FakeRing(number) for number in range(3)]
    copier, memory = copying(rings)
    waiting: list[tuple[int, bytes]] = []
    seen = freed = found_full = 0
    for _ in range(3000):
        for ring in rings:
            ring.write(chance.choice((0, 0, 1, 7, 60, 250)))
        before = [ring.tail for ring in rings]
        copier.take(asked=chance.random() < 0.3)
        found_full += memory.words[FULL]
        while seen < memory.words[PUBLISHED]:
            expected = b"".join(ring.contents(start, ring.tail) for ring, start in zip(rings, before, strict=True))
            waiting.append((seen, expected))
            assert memory.round(seen).complete == (not memory.words[FULL])
            assert list(memory.ends(seen)) == [ring.tail for ring in rings]
            seen += 1
        while waiting and chance.random() < 0.45:
            number, expected = waiting.pop(0)
            assert b"".join(taken(memory, number)) == expected
            freed = number + 1
            memory.words[FREED] = freed
    assert freed > 500 and found_full > 50


def test_an_empty_round_is_for_one_who_asked() -> None:
    copier, memory = copying([FakeRing(0)])
    copier.take(asked=False)
    assert memory.words[PUBLISHED] == 0
    copier.take(asked=True)
    assert memory.words[PUBLISHED] == 1 and memory.round(0).complete and not memory.round(0).blocks


def test_what_finds_no_room_stays_in_its_ring() -> None:
    rings = [FakeRing(0), FakeRing(1), FakeRing(2)]
    copier, memory = copying(rings)
    for ring in rings:
        ring.write(SIZE // 16)
    copier.take(asked=True)
    assert not memory.round(0).complete and memory.words[FULL]
    assert [ring.tail for ring in rings] == [SIZE // 2, SIZE // 2, 0]
    copier.take(asked=True)
    assert memory.words[PUBLISHED] == 1, "there was no room, and no round is said to have been whole"
    memory.words[FREED] = 1
    copier.take(asked=True)
    assert memory.round(1).complete and not memory.words[FULL]
    assert taken(memory, 1) == [rings[2].contents(0, SIZE // 2)]


def test_a_table_that_is_full_holds_the_copier_up() -> None:
    ring = FakeRing(0)
    copier, memory = copying([ring])
    for _ in range(300):
        copier.take(asked=True)
    assert memory.words[PUBLISHED] == 256 and memory.words[FULL]
    memory.words[FREED] = 200
    copier.take(asked=True)
    assert memory.words[PUBLISHED] == 257 and not memory.words[FULL]


def test_memory_of_a_peak_is_given_back_once_all_is_read() -> None:
    ring = FakeRing(0)
    memory = _Memory(64 << 20, 1)
    copier = _Copying([ring], memory)  # type: ignore[list-item]
    memory.data[:] = b"x" * (64 << 20)
    copier._highest = 60 << 20
    copier._used.append((0, 8))
    copier._published = 1
    copier.give_back()
    assert memory.data[(60 << 20) - 1] == ord("x"), "not all is read"
    memory.words[FREED] = 1
    for _ in range(3):
        copier.give_back()
    assert not copier.wants_rest
    assert memory.data[(60 << 20) - 1] == 0 and memory.data[(16 << 20) - 1] == ord("x")
