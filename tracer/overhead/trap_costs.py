"""What the trap of an attach point costs: the kinds of instruction that its sites are on, each measured once.

The kinds are measured by a process beside (`overhead.trap_timer`), since placing and removing a breakpoint waits for
the kernel, a tenth of a second or more: the trace goes on meanwhile.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer.kernel.trials.instructions import codes_of
from tracer.kernel.workers.spawn import Outliving, start
from tracer.overhead import trap_timer
from tracer.overhead.guard import Cost

if TYPE_CHECKING:
    from tracer.resolve.model import Site

ASSUMED_NS = 1000.0
"""Where nothing can be measured: no PMU of uprobes (before Linux 4.17), no x86-64."""

_MOST_SITES = 64
"""Looked at of an attach point that has more, evenly spread."""

_NOP10 = "662e0f1f840000000000"
_STEPPED = "4889f8"  # mov %rdi,%rax

Kind = tuple[str, bool]
"""The instruction that stands for its like, in hex digits, and whether the probe is a return probe."""


def instruction_like(code: bytes) -> str:
    """The instruction to try for one that begins so: itself where it is harmless, else one that kernels treat alike
    (arch_uprobe_analyze_insn of x86: nops, branches and pushes can be emulated, the rest is single-stepped).
    """
    plain = code[1:] if code[:1] == b"\x41" else code
    for start_of, stands_for in (
        (bytes.fromhex(_NOP10), _NOP10),
        (b"\x90", "90"), (b"\x0f\x1f\x44\x00\x00", "0f1f440000"), (b"\x66\x90", "6690"), (b"\x0f\x1f", "6690"),
        (b"\x66\x0f\x1f", "6690"), (b"\xf3\x0f\x1e\xfa", "f30f1efa"), (b"\xc3", "c3"),
        (b"\xe8", "eb00"), (b"\xe9", "eb00"), (b"\xeb", "eb00"),
    ):  # fmt: skip
        if code.startswith(start_of):
            return stands_for
    if plain[:1] and plain[0] >> 3 == 0x50 >> 3:
        return "55"
    if code[:1] and (code[0] >> 4 == 7 or (code[0] == 0x0F and len(code) > 1 and code[1] >> 4 == 8)):
        return "eb00"
    return _STEPPED


class TrapCosts:
    """Measures lazily; `close` ends what is under way. `sample_type` is that of the session's perf samples, 0 where it
    takes none.
    """

    def __init__(self, sample_type: int = 0) -> None:
        self._sample_type = sample_type
        self._known: dict[Kind, Cost] = {}
        self._failed: set[Kind] = set()
        self._process: Outliving | None = None
        self._asked: list[Kind] = []

    def of(self, sites: Sequence[Site]) -> Cost | None:
        """The mean over these sites; None while some of their kinds are being measured."""
        found = [_kind(site) for site in sites[:: -(-len(sites) // _MOST_SITES) or 1]]
        kinds = [kind for kind in found if kind is not None]
        if self._process is not None:
            self._take()
        if self._process is not None:
            return None
        missing = list(dict.fromkeys(kind for kind in kinds if kind not in self._known))
        if missing:
            self._ask(missing)
            return None
        if not kinds:
            return Cost(ASSUMED_NS, "the file cannot be opened any more")
        costs = [self._known[kind] for kind in kinds]
        return Cost(sum(cost.ns for cost in costs) / len(costs), next(filter(None, (c.unmeasured for c in costs)), ""))

    def close(self) -> None:
        """A second call does nothing."""
        if self._process is not None:
            self._end(self._process)  # killed, it could not take its probe out

    def _ask(self, kinds: list[Kind]) -> None:
        self._asked = kinds
        try:
            self._process = start(trap_timer.__file__)
            request = json.dumps({"kinds": kinds, "sample_type": self._sample_type})
            with suppress(BrokenPipeError):
                os.write(self._process.to, request.encode() + b"\n")
        except OSError as error:
            self._learn([error.strerror or str(error)] * len(kinds))

    def _take(self) -> None:
        """What the process has found out, if it has."""
        process = self._process
        assert process is not None
        poll = select.poll()
        poll.register(process.back, select.POLLIN)
        if not poll.poll(0):
            return
        answer = os.read(process.back, 1 << 16)  # one write of a line, or nothing from one that died
        self._end(process)
        died = "the process that measures it died"
        self._learn(json.loads(answer) if answer.endswith(b"\n") else [died] * len(self._asked))

    def _learn(self, answers: list[float | str]) -> None:
        """What failed once is asked again: in two of six full test runs one of some forty measurements did."""
        for kind, answer in zip(self._asked, answers, strict=True):
            if not isinstance(answer, str):
                self._known[kind] = Cost(answer)
            elif kind in self._failed:
                self._known[kind] = Cost(ASSUMED_NS, answer)
            else:
                self._failed.add(kind)

    def _end(self, process: Outliving) -> None:
        os.close(process.to)
        os.close(process.back)
        with suppress(ChildProcessError):  # SIGCHLD is ignored, and the kernel has reaped it
            os.waitpid(process.pid, 0)
        self._process = None


def _kind(site: Site) -> Kind | None:
    try:
        (code,) = codes_of([site])
    except OSError:
        return None
    return instruction_like(code), site.kind == "uretprobe"
