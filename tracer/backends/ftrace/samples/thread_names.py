"""What threads are called at each moment, for events that do not carry it.

Their names are read once, before the first hit. From then on the kernel tells of each thread that begins, with the name
of the one that started it, of each that takes another name, by exec() too, and of each that ends. What it tells has a
time, and is put among the samples in that order.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from tracer.backends.ftrace.samples.decoder import Decoder
from tracer.backends.ftrace.samples.shape import TID, TIME, Bytes, Sample, Shape
from tracer.host.stat import pids, threads_of
from tracer.kernel import perf

NUMBER = -1
"""In the place of an event's number: what says something of a thread's name."""

_TASK, _COMM, _TIME = struct.Struct("=8xIIIIQ"), struct.Struct("=8xII"), struct.Struct("=Q")
_WORKER = re.compile(rb"(kworker/(?:u?\d+:\d+\w*))[-+].*", re.DOTALL)
"""A kernel's worker: /proc shows what it works at behind its name (wq_worker_comm)."""
_MOST_ENDED = 1 << 16
"""Threads that have ended whose names are kept: they may be in samples that are not read yet."""


class ThreadNames:
    """The names by the numbers of threads, as of the moment of the sample that is being worked through."""

    def __init__(self, shape: Shape) -> None:
        self._padding = (0,) * (shape.event - TIME - 1)
        self._last = shape.event + 1
        self._ended: dict[int, None] = {}
        self._names: dict[int, bytes] = {}

    def look(self, processes: Sequence[int]) -> None:
        """Reads the names of the threads of some processes, () for all; what changes them is recorded by now."""
        for thread in threads_of(*(processes or pids())):
            try:
                with open(f"/proc/{thread}/comm", "rb") as file:
                    name = file.read(64)
            except OSError:
                continue
            self._names[thread] = of_proc(name)

    def name(self, thread: int, cpu: int) -> bytes | None:
        """That of a thread, None where the kernel does not say which one it is."""
        return b"swapper/%d" % cpu if thread == 0 else self._names.get(thread)

    def told(self, kind: int, data: Bytes, position: int) -> Sample | None:
        """A record of the kernel's as a sample of the event `NUMBER`; the last item is a name, the thread from which it
        comes, or None at its end. Its kind is that of a name: a fork among samples is a process's birth (see
        `read.reader`). None for other records.
        """
        if kind == perf.RECORD_COMM:
            size = struct.unpack_from("=H", data, position + 6)[0]
            pid, tid = _COMM.unpack_from(data, position)
            (at_ns,) = _TIME.unpack_from(data, position + size - _TIME.size)
            name = bytes(data[position + _COMM.size : position + size - _TIME.size]).partition(b"\0")[0]
            return perf.RECORD_COMM, 0, 0, pid, tid, at_ns, *self._padding, NUMBER, name
        if kind not in (perf.RECORD_FORK, perf.RECORD_EXIT):
            return None
        pid, _, tid, parent, at_ns = _TASK.unpack_from(data, position)
        said = parent if kind == perf.RECORD_FORK else None
        return perf.RECORD_COMM, 0, 0, pid, tid, at_ns, *self._padding, NUMBER, said

    def take(self, sample: Sample) -> None:
        """Takes note of what such a sample says."""
        thread, said = sample[TID], sample[self._last]
        if isinstance(said, bytes):
            self._names[thread] = said
        elif said is not None:
            self._ended.pop(thread, None)
            if said in self._names:
                self._names[thread] = self._names[said]
        else:
            self._ended[thread] = None
            if len(self._ended) > _MOST_ENDED:
                oldest = next(iter(self._ended))
                del self._ended[oldest]
                self._names.pop(oldest, None)

    @property
    def decoder(self) -> Decoder:
        """That of these samples, which nothing decodes."""
        return Decoder(NUMBER, "", None, self.take, lambda sample: {})


def of_proc(text: bytes) -> bytes:
    """A thread's name, of what /proc shows for it."""
    worker = _WORKER.match(text)
    return (worker[1] if worker else text.removesuffix(b"\n"))[:15]
