"""scripts/attack/unwinding: stacks of running programs whose `.eh_frame` is corrupted, at random bytes or as a whole.

Each target is started from such a file, whose tables it never reads itself; then its stacks are walked.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from scripts.attack.command import Trial, command
from scripts.attack.trial import Bench, Config
from scripts.attack.verdict import Seen, judge
from tracer.resolve.elf.file import Elf

Spoil = Callable[[random.Random, bytearray], None]


def _scatter(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.randint(1, 40)):
        data[chance.randrange(len(data))] = chance.randrange(256)


def _fill(value: int) -> Spoil:
    def spoil(chance: random.Random, data: bytearray) -> None:
        data[:] = bytes([value]) * len(data)

    return spoil


def _noise(chance: random.Random, data: bytearray) -> None:
    data[:] = chance.randbytes(len(data))


def _lengths(chance: random.Random, data: bytearray) -> None:
    """Only what tells how long the parts are."""
    start = 0
    while start + 4 <= len(data) and (length := int.from_bytes(data[start : start + 4], "little")):
        data[start : start + 4] = chance.choice((0, 1, length * 3, 0x7FFFFFFF, 0xFFFFFFFF)).to_bytes(4, "little")
        start += 4 + length


SPOILS: dict[str, Spoil] = {
    "scattered bytes": _scatter, "zeros": _fill(0), "ones": _fill(255), "noise": _noise, "lengths": _lengths,
}  # fmt: skip


def _spoiled(config: Config, how: str, section: str, seed: int) -> Trial:
    def run(bench: Bench) -> Seen:
        bench.renew()
        with Elf(str(bench.target)) as elf:
            header = elf.section(section)
            assert header is not None
            start, end = header.offset, header.offset + header.size
        data = bytearray(bench.target.read_bytes())
        part = data[start:end]
        SPOILS[how](random.Random(seed), part)
        data[start:end] = part
        bench.target.write_bytes(data)
        seen = bench.run(config)
        judge(seen, None)
        return seen

    return Trial(f"{how} in {section}, {seed}: {config}", run)


def trials(chance: random.Random, runs: int) -> list[Trial]:
    """Trials of each way in both tables, on both backends."""
    chosen = []
    for number in range(runs):
        config = Config(("bcc", "ftrace")[number % 2], "ustack", chance.choice(("-c", "-p")), "warm")
        section = chance.choice((".eh_frame", ".eh_frame", ".eh_frame_hdr"))
        chosen.append(_spoiled(config, chance.choice(list(SPOILS)), section, chance.randrange(1 << 32)))
    return chosen


if __name__ == "__main__":
    sys.exit(command(__doc__, trials, 100))
