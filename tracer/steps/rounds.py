"""Has loops count their rounds where they must: all loops of a clause together run a limited number at a hit, so that
none is long.

Loops inside each other multiply. Three of a thousand rounds each, which the kernel runs as calls (`bpf_loop`), keep the
traced program waiting for seconds at every hit (6.18), and a fourth for an hour. A loop over a map ends with the map.
But the kernel looks at all of the map's room, 50 ns for each key that it could hold. So where such a loop stands inside
another, it takes a number of rounds each time that it begins. Where all loops are ranges of constants that stay below
the limit, none counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracer.dataclass import replace
from tracer.steps.model import Attempt, Block, Each, If, Range, Round, Step, While
from tracer.steps.values import Const
from tracer.steps.walk import blocks, with_blocks

NO_ROUNDS = 1 << 40
"""As a number of rounds that a hit has had: more than any limit."""
KEYS_A_ROUND = 16
"""Keys of a map's room for which a loop over it inside another takes one round."""


def counted(block: Block, limit: int, rooms: Mapping[str, int]) -> Block:
    """A clause's block with a `Round` for each loop that counts. `rooms`: how many keys each map has room for; loops
    over others do not count.
    """
    most = _most(block)
    return block if most is not None and most <= limit else _with_rounds(block, limit, rooms, False)


def _with_rounds(block: Block, limit: int, rooms: Mapping[str, int], inside: bool) -> Block:
    """`inside`: the block stands in a loop."""
    steps: list[Step] = []
    for step in block:
        match step:
            case While(head=head, body=body):
                head, body = (_with_rounds(part, limit, rooms, True) for part in (head, body))
                steps.append(replace(step, head=head, body=(Round(limit), *body)))
            case Range(body=body):
                steps.append(replace(step, body=(Round(limit), *_with_rounds(body, limit, rooms, True))))
            case Each(map=map, body=body):
                if inside and map in rooms:
                    steps.append(Round(limit, min(max(rooms[map] // KEYS_A_ROUND, 1), limit)))
                steps.append(replace(step, body=_with_rounds(body, limit, rooms, True)))
            case _:
                steps.append(with_blocks(step, lambda part: _with_rounds(part, limit, rooms, inside)))
    return tuple(steps)


def _most(block: Block) -> int | None:
    """The most rounds that the block's loops run, a loop over a map by itself aside; None where nothing tells."""
    total = 0
    for step in block:
        below = [_most(inner) for inner in blocks(step)]
        inside = sum(rounds or 0 for rounds in below)
        match step:
            case _ if None in below:
                return None
            case If() | Attempt():
                total += inside
            case Range(start=Const(value=int(start)), stop=Const(value=int(stop)), body=body) if not _walks(body):
                total += max(stop - start, 0) * (1 + inside)
            case Each(body=body) if not inside and not _walks(body):
                pass
            case Range() | While() | Each():
                return None
    return total


def _walks(block: Block) -> bool:
    return any(isinstance(step, Each) or any(map(_walks, blocks(step))) for step in block)
