"""Samples of what is no trace event: which one a sample is of, what threads are called, and what was held back."""

from __future__ import annotations

import struct
from typing import Any, cast

from tests.unit.backends.ftrace.test_reader import FakeRing
from tracer.backends.ftrace.fetchargs import FromSample, ToldName
from tracer.backends.ftrace.read.reader import Reader
from tracer.backends.ftrace.samples.decoder import build
from tracer.backends.ftrace.samples.shape import Shape
from tracer.backends.ftrace.samples.thread_names import ThreadNames, of_proc
from tracer.backends.sampling import held_back, throttles
from tracer.kernel import perf
from tracer.kernel.uprobe_events.events import EventFormat
from tracer.results.events import Loss
from tracer.steps.python.runtime import Runtime

SHAPE = Shape(cpu=True, callchain=False, told=3)
FIRST, SECOND = 1 << 16, (1 << 16) + 1
NOBODY = (1 << 32) - 1


def sampled(identity: int, time: int, pid: int = 100, tid: int = 101, cpu: int = 1) -> bytes:
    """A record whose raw data is four zeros, as the kernel writes it where there is none."""
    body = struct.pack("=IIQIIQQQII", pid, tid, time, cpu, 0, 77, identity, 0, 4, 0)
    return struct.pack("=IHH", perf.RECORD_SAMPLE, 0, 8 + len(body)) + body


def task(kind: int, pid: int, tid: int, parent: int, time: int, process: int = 0) -> bytes:
    """A fork, by a thread of another `process` where that is told, or an exit; behind it what SAMPLE_ID_ALL puts."""
    body = struct.pack("=IIIIQQ", pid, process or pid, tid, parent, time, time)
    return struct.pack("=IHH", kind, 0, 8 + len(body)) + body


def renamed(tid: int, name: bytes, time: int) -> bytes:
    body = struct.pack("=II16sQ", 100, tid, name, time)
    return struct.pack("=IHH", perf.RECORD_COMM, 0, 8 + len(body)) + body


def run(
    *blocks: bytes, names: dict[int, bytes] | None = None, pids: tuple[int, ...] = (), follow: bool = False
) -> tuple[list[tuple[Any, ...]], Reader]:
    """The hits of two events, whose descriptors are 5 and 6, with the number of the event first."""
    world = Runtime(maps=None, emit=lambda event: None, loss=Loss())  # type: ignore[arg-type]
    hits: list[tuple[Any, ...]] = []
    named = ThreadNames(SHAPE)
    named._names |= names or {}
    sources = [FromSample("tid"), FromSample("cpu"), ToldName(late=False)]
    decoders = {named.decoder.id: named.decoder}
    for number in (FIRST, SECOND):
        clause = [(lambda hit, number=number: hits.append((number, *hit)), sources)]
        decoders[number] = build(
            EventFormat(number, {}), [], [clause], SHAPE, world, time_offset=0, child_pid=0, named=named.name  # type: ignore[list-item]
        )
    rings = [FakeRing(block) for block in blocks]
    reader = Reader(
        cast("Any", rings), decoders, SHAPE, pids, follow, identities={5: FIRST, 6: SECOND}, named=named
    )  # fmt: skip
    reader.collect()
    reader.collect()
    for sample in [*reader.next_samples(final=True), *reader.next_samples(final=True)]:
        decoders[sample[SHAPE.event]].run(sample)
    return hits, reader


def test_the_number_of_the_descriptor_tells_the_event() -> None:
    hits, reader = run(sampled(5, 10) + sampled(6, 20) + sampled(5, 30), names={101: b"app"})
    assert hits == [(FIRST, 101, 1, b"app"), (SECOND, 101, 1, b"app"), (FIRST, 101, 1, b"app")]
    assert (reader.kept[FIRST], reader.kept[SECOND], reader.delivered, reader.read) == (2, 1, 3, 3)


def test_a_thread_has_the_name_of_the_moment_whatever_ring_tells_it() -> None:
    told = (
        task(perf.RECORD_FORK, 100, 102, 101, 15) + renamed(101, b"later", 25) + renamed(102, b"own", 35)
        + task(perf.RECORD_EXIT, 100, 102, 101, 45)
    )  # fmt: skip
    samples = b"".join(sampled(5, time, tid=tid) for time in range(10, 60, 10) for tid in (101, 102))
    hits, reader = run(samples, told, names={101: b"app"})
    assert [name for _, tid, _, name in hits if tid == 101] == [b"app", b"app", b"later", b"later", b"later"]
    assert [name for _, tid, _, name in hits if tid == 102] == [None, b"app", b"app", b"own", b"own"]
    assert (reader.delivered, reader.read) == (10, 10), "what is told of threads is no hit"


def test_a_thread_that_begins_makes_its_process_no_stranger() -> None:
    told = task(perf.RECORD_FORK, 100, 102, 101, 15)
    samples = b"".join(sampled(5, time, pid, tid) for time in (10, 20) for pid, tid in ((100, 101), (200, 200)))
    hits, reader = run(samples + sampled(5, 30, 100, 102) + sampled(5, 40, 300, 300), told,
                       names={101: b"app", 200: b"other"}, pids=(100, 200))  # fmt: skip
    assert [(tid, name) for _, tid, _, name in hits] == [
        (101, b"app"), (200, b"other"), (101, b"app"), (200, b"other"), (102, b"app"),
    ]  # fmt: skip
    assert (reader.delivered, reader.kept[FIRST]) == (5, 5)


def test_a_process_that_is_born_has_its_parents_name_where_it_is_followed() -> None:
    told = task(perf.RECORD_FORK, 300, 300, 101, 15, process=100)
    samples = b"".join(sampled(5, time, pid, tid) for time in (10, 20) for pid, tid in ((100, 101), (300, 300)))
    names = {101: b"app", 200: b"other", 300: b"before"}
    of_all = [(tid, name) for _, tid, _, name in run(samples, told, names=names, pids=(100,), follow=True)[0]]
    assert of_all == [(101, b"app"), (101, b"app"), (300, b"app")]
    of_two = [(tid, name) for _, tid, _, name in run(samples, told, names=names, pids=(100, 200))[0]]
    assert of_two == [(101, b"app"), (101, b"app")]


def test_an_idle_cpu_is_called_as_the_kernel_calls_it() -> None:
    assert run(sampled(5, 10, pid=0, tid=0, cpu=3))[0] == [(FIRST, 0, 3, b"swapper/3")]


def test_a_thread_that_has_ended_has_no_number() -> None:
    assert run(sampled(5, 10, tid=NOBODY))[0] == [(FIRST, None, 1, None)]


def test_a_workers_name_is_without_what_it_works_at() -> None:
    shown = b"kworker/u9:3-events_unbound\n", b"kworker/0:1H+kblockd\n", b"kworker/R-rcu_g\n", b"a-b\n", b"two\nlines\n"
    assert [*map(of_proc, shown)] == [b"kworker/u9:3", b"kworker/0:1H", b"kworker/R-rcu_g", b"a-b", b"two\nlines"]


def test_what_the_kernel_held_back_is_counted() -> None:
    header = struct.pack("=IHHQQQ", perf.RECORD_THROTTLE, 0, 32, 1, 2, 3)
    other = struct.pack("=IHHQQQ", perf.RECORD_THROTTLE + 1, 0, 32, 1, 2, 3)
    assert throttles(header + other + header) == 2
    assert run(header + sampled(5, 10) + other, names={})[1].throttled == 1
    assert held_back(1) == (
        "the kernel stopped sampling 1 time, each until the next tick, as samples came too fast"
        " (kernel.perf_event_max_sample_rate): ask for fewer"
    )
