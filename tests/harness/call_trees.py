"""Random trees of calls (`tests/targets/call_trees.cc`): what tracer says of them beside what they say themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.harness.cli import tracer


class Trees(NamedTuple):
    """A run: calls that returned, and that were left, by the program's own count; `wrong` is what tracer says
    otherwise. `more_ns` are what the durations have more than the program's own, from the shortest to the longest.
    """

    returned: int
    abandoned: int
    wrong: tuple[str, ...]
    more_ns: tuple[int, ...]


def compared(path: Path, backend: str, seed: int, trees: int, said: Path) -> Trees:
    """Traces so many trees of a seed. `said`: a file for what tracer prints."""
    text = f'call:{path}:node, call:{path}:other {{ printf("%d %d %d\\n", arg0, retval, duration); }}'
    done = tracer("-q", "--backend", backend, "-o", str(said), "-c", f"{path} {seed} {trees}", "-e", text)
    stated: dict[int, tuple[int, int]] = {}
    returned = abandoned = 0
    for line in done.text.splitlines():
        match line.split():
            case ["own", *words]:
                number, result, ns = map(int, words)
                stated[number] = result, ns
            case ["all", *words]:
                returned, abandoned = map(int, words)
    wrong = [] if len(stated) == returned and done.status == 0 else [f"the program printed {len(stated)} of {returned}"]
    seen: dict[int, tuple[int, int]] = {}
    for line in said.read_text().splitlines():
        if line:
            number, result, ns = map(int, line.split())
            wrong += [f"call {number} is there twice"] if number in seen else []
            seen[number] = result, ns
    for number in stated.keys() | seen.keys():
        if stated.get(number, (None,))[0] != seen.get(number, (None,))[0]:
            wrong.append(f"call {number}: {stated.get(number)}, and tracer says {seen.get(number)}")
        elif seen[number][1] < stated[number][1]:
            wrong.append(f"call {number} took {stated[number][1]} ns, and tracer says {seen[number][1]}")
    told = re.fullmatch(r"(?:tracer: (\d+) calls? left out: no return, .*\n)?", done.err)
    if told is None or int(told[1] or 0) != abandoned:
        wrong.append(f"{abandoned} calls were left, and tracer says: {done.err}")
    more = sorted(ns - stated[number][1] for number, (_, ns) in seen.items() if number in stated)
    return Trees(returned, abandoned, tuple(wrong), tuple(more))
