"""Turns a record in a ring into the tuple that a compiled clause takes, with one decoder for each event."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tracer.backends.ftrace.fetchargs import FromSample, Source, ToldName
from tracer.backends.ftrace.samples.shape import Bytes, Sample, Shape
from tracer.backends.ftrace.samples.writer import Writer, define
from tracer.dataclass import dataclass
from tracer.kernel.uprobe_events.events import EventFormat, Fetch, FieldAt
from tracer.steps.python.runtime import Compiled, Runtime

if TYPE_CHECKING:
    from tracer.backends import Unwinder


Slots = dict[int, list[int]]

Named = Callable[[int, int], bytes | None]
"""The name of a thread, on that CPU; None where it is not known."""

Near = Callable[..., bool]
"""Whether one of some threads may be traced."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """The decoder of one event's samples: `unpack` is a struct's codes for a record without its padding where that
    alone does (`decode` None), else `decode` takes the ring's bytes and the start of the record. `run` hands a
    sample to the clauses. `slots` tells where a sample has its strings (see `Writer.slots`).
    """

    id: int
    codes: str
    decode: Callable[[Bytes, int], Sample] | None
    run: Callable[[Sample], None]
    slots: Callable[[Sample], Slots]


Branch = Sequence[tuple[Compiled, Sequence[Source]]]
"""Clauses in the order of the program, each with the sources of its hit tuple."""


def build(
    format: EventFormat,
    fetches: Sequence[Fetch],
    branches: Sequence[Branch],
    shape: Shape,
    runtime: Runtime,
    *,
    time_offset: int,
    child_pid: int,
    unwinder: Unwinder | None = None,
    named: Named | None = None,
    near: Near | None = None,
    others: Sequence[str] = (),
) -> Decoder:
    """The decoder of one event. Where it has several branches, one more field says which; `time_offset` is added to
    times where a clause wants them; `unwinder` walks the stacks of samples that have a copy; `named` has the names of
    threads where samples have none. `near`: of an event whose fields name `others` than the thread in which it happens,
    stacks are walked only where one of them may be traced.
    """
    if len(branches) > 1:
        fetches = (*fetches, Fetch("", "u16"))
    decoders: list[Decoder] = []
    for runs in branches:
        late = any(isinstance(src, FromSample | ToldName) and src.late for _, sources in runs for src in sources)
        writer = Writer(format, fetches, shape, time_offset, child_pid, unwinder, late, near, others)
        calls = [(function, writer.hit(sources)) for function, sources in runs]
        run, slots = _runner(calls, runtime, named), partial(_same, writer.slots())
        decoders.append(Decoder(format.id, writer.codes, writer.decoder(), run, slots))
    if len(branches) == 1:
        return decoders[0]
    return _branching(decoders, format.fields[f"f{len(fetches) - 1}"], shape, shape.event + len(fetches))


def _branching(branches: Sequence[Decoder], field: FieldAt, shape: Shape, index: int) -> Decoder:
    """The decoder of an event with branches: their number stands at `field` of the raw data, at `index` of a sample."""
    runners = [branch.run for branch in branches]

    def run(sample: Sample) -> None:
        runners[sample[index]](sample)

    def slots(sample: Sample) -> Slots:
        return branches[sample[index]].slots(sample)

    first = branches[0]
    if all(branch.decode is None for branch in branches):
        return Decoder(first.id, first.codes, None, run, slots)
    plain = struct.Struct(first.codes).unpack_from
    decoders = [branch.decode or plain for branch in branches]
    number = struct.Struct("=H").unpack_from
    chain = struct.calcsize(shape.prefix)
    count = struct.Struct("=Q").unpack_from

    def decode(data: Bytes, offset: int) -> Sample:
        raw = offset + chain + 4
        if shape.callchain:
            raw += 8 + 8 * int(count(data, offset + chain)[0])
        branch: int = number(data, raw + field.offset)[0]
        return decoders[branch](data, offset)

    return Decoder(first.id, first.codes, decode, run, slots)


def _same(slots: Slots, sample: Sample) -> Slots:
    return slots


def _runner(
    calls: Sequence[tuple[Compiled, str]], runtime: Runtime, named: Named | None
) -> Callable[[Sample], None]:
    if len(calls) == 1:
        text = f"def run(t):\n    clause0({calls[0][1]})\n"
    else:
        lines = ["def run(t):"]
        for number, (_, hit) in enumerate(calls):
            lines += [f"    clause{number}({hit})", "    if runtime.exiting: return"]
        text = "\n".join(lines)
    names: dict[str, Any] = {f"clause{number}": function for number, (function, _) in enumerate(calls)}
    names["runtime"] = runtime
    names["named"] = named
    return define(text, "run", names)
