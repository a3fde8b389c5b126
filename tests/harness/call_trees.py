"""Random trees of calls (`tests/targets/call_trees.cc`, `.go`): what tracer says of them beside what they say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.harness.cli import tracer

_THREAD = 100_000_000
"""The numbers of a thread's calls begin with its own times this."""


class Trees(NamedTuple):
    """A run: calls that returned, and that were left, by the program's own count; `wrong` is what tracer says
    otherwise. `more_ns` are what the durations have more than the program's own clock in the call, less what its probes
    took, from the shortest to the longest; `beyond` are those that are longer than twice the cost of the probes.
    """

    returned: int
    abandoned: int
    wrong: tuple[str, ...]
    more_ns: tuple[int, ...]
    beyond: int


class Own(NamedTuple):
    """What the program says of a call: see there."""

    id: int
    result: int
    inside: int
    around: int
    before: int
    entered: int
    turns: int


class Seen(NamedTuple):
    """What tracer says of it."""

    result: int
    duration: int
    self_time: int
    probe_time: int


def compared(path: Path, backend: str, seed: int, trees: int, said: Path, go: bool = False) -> Trees:
    """Traces so many trees of a seed, the calls of each function in a clause of its own. `said`: a file for what tracer
    prints. `go`: it is the program of Go.
    """
    shown = '{ printf("%ld %ld %ld %ld %ld\\n", arg0, retval, duration, self_time, probe_time); }'
    text = " ".join([f"call:{path}:{'main.' * go}{name} {shown}" for name in ("node", "other")])
    done = tracer("-q", "--backend", backend, "-o", str(said), "-c", f"{path} {seed} {trees}", "-e", text)
    stated: dict[int, Own] = {}
    returned = abandoned = 0
    for line in done.text.splitlines():
        match line.split():
            case ["own", *words]:
                call = Own(*map(int, words))
                stated[call.id] = call
            case ["all", *words]:
                returned, abandoned = map(int, words)
    wrong = [] if len(stated) == returned and done.status == 0 else [f"the program printed {len(stated)} of {returned}"]
    seen: dict[int, Seen] = {}
    for line in said.read_text().splitlines():
        if line:
            number, *values = map(int, line.split())
            wrong += [f"call {number} is there twice"] if number in seen else []
            seen[number] = Seen(*values)
    for number in stated.keys() | seen.keys():
        if number not in stated or number not in seen or stated[number].result != seen[number].result:
            wrong.append(f"call {number}: {stated.get(number)}, and tracer says {seen.get(number)}")
    told = re.fullmatch(r"(?:tracer: (\d+) calls? left out: no return, .*\n)?", done.err)
    if told is None or int(told[1] or 0) != abandoned:
        wrong.append(f"{abandoned} calls were left, and tracer says: {done.err}")
    if wrong:
        return Trees(returned, abandoned, tuple(wrong), (), 0)
    wrong += _times(stated, seen, go)
    # By the clocks of the program: what both probes of a call without another inside it take of its caller.
    alone = sorted(call.around - call.inside for call in stated.values() if not call.entered)
    cost = alone[len(alone) // 2]
    more = sorted(_more(stated[number], call) for number, call in seen.items())
    beyond = sum(_more(stated[number], call) > 2 * cost * (1 + stated[number].entered) for number, call in seen.items())
    return Trees(returned, abandoned, tuple(wrong), tuple(more), beyond)


class Idiom(NamedTuple):
    """A run of bpftrace's idiom: calls that returned, by a run without it, that were timed, and whose time lies outside
    of both clocks of the program; how many times the program did not come to its end.
    """

    returned: int
    timed: int
    wrong: int
    ended: int


def by_idiom(bpftrace: str, path: Path, seed: int, plain: bool) -> Idiom:
    """A tree, timed by the time at the entry in `@start[tid]` and the difference at the return. `plain`: it only calls
    and recurses.
    """
    command = [str(path), str(seed), "1", *["plain"] * plain]
    untraced = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    both = "PROBE:{0}:node, PROBE:{0}:other"
    entries, returns = (both.replace("PROBE", kind).format(path) for kind in ("uprobe", "uretprobe"))
    text = (
        f"{entries} {{ @start[tid] = nsecs; }} {returns} /@start[tid]/"
        ' { printf("timed %d %d\\n", retval, nsecs - @start[tid]); delete(@start[tid]); }'
    )
    words = [bpftrace, "-e", text, "-c", " ".join(command)]
    lines = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False).stdout.splitlines()
    stated = [Own(*map(int, line.split()[1:])) for line in lines if line.startswith("own ")]
    times = [tuple(map(int, line.split()[1:])) for line in lines if line.startswith("timed ")]
    clocks = {call.result: call for call in stated}
    wrong = sum(
        result not in clocks or not clocks[result].inside <= ns <= clocks[result].around for result, ns in times
    )
    returned = sum(line.startswith("own ") for line in untraced.splitlines())
    ended = not any(line.startswith("all ") for line in lines)
    return Idiom(returned, len(times), wrong if not ended else 0, int(ended))


def _more(stated: Own, seen: Seen) -> int:
    return seen.duration + seen.probe_time - stated.inside


def _times(stated: Mapping[int, Own], seen: Mapping[int, Seen], go: bool) -> Iterator[str]:
    """What is wrong with the times. A function of Go (`go`) that needs more stack begins anew, at the cost of a probe
    that is no call's.
    """
    threads: dict[int, list[Own]] = {}
    for call in stated.values():
        threads.setdefault(call.id // _THREAD, []).append(call)
    costs: dict[tuple[int, int], set[int]] = {}
    for calls in threads.values():
        for number, call in enumerate(calls):
            told = seen[call.id]
            if not call.inside <= told.duration + told.probe_time <= call.around:
                yield f"{call}: {told} is not between both clocks"
            if call.turns:
                if not 0 <= told.self_time <= told.duration:
                    yield f"{call}: {told}"
                continue
            ended = calls[call.before : number]
            below = sum(seen[child.id].self_time for child in ended)
            if told.self_time != max(told.duration - below, 0):
                yield f"{call}: {told}, and calls below have {below} ns"
            if told.duration:
                costs.setdefault((call.entered, len(ended)), set()).add(told.probe_time)
    yield from () if go else _costs(costs)


def _costs(costs: Mapping[tuple[int, int], set[int]]) -> Iterator[str]:
    """Probes take so much for each call that was entered, and for each that has ended."""
    (between,), (one,) = costs[0, 0], costs[1, 1]
    for (entered, ended), taken in costs.items():
        if entered == ended and taken != {between + entered * (one - between)}:
            yield f"{entered} calls inside take {taken}, none {between}, one {one}"
        if not all(between + ended * (one - between) <= ns <= between + entered * (one - between) for ns in taken):
            yield f"{entered} calls inside, of which {ended} ended, take {taken}"


def spread(more_ns: Sequence[int]) -> str:
    """Median and 99% of some times, in us."""
    return f"{more_ns[len(more_ns) // 2] / 1000:.1f}, {more_ns[len(more_ns) * 99 // 100] / 1000:.1f} us"
