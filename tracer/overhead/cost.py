"""What a hit costs the traced program: the trap of an instruction of its kind, each kind measured once.

The kinds are measured by a process beside (`overhead.measuring_process`), since placing and removing a breakpoint waits
for the kernel, a tenth of a second or more: the trace goes on meanwhile. What is done at the hit beside the trap and
the sample, some 10 to 200 ns, is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer.overhead.guard import Cost
from tracer.waiting import readable

if TYPE_CHECKING:
    from tracer.kernel.workers.spawn import Worker
    from tracer.resolve.model import Site

ASSUMED_NS = 1000.0
"""Where nothing can be measured: no PMU of uprobes (before Linux 4.17), no x86-64."""

_PROCESS = os.path.join(os.path.dirname(__file__), "measuring_process.py")
_MOST_SITES = 64
"""Looked at of an attach point that has more, evenly spread."""

_LIKE = {
    bytes.fromhex("662e0f1f840000000000"): "662e0f1f840000000000",
    b"\x90": "90", b"\x0f\x1f\x44\x00\x00": "0f1f440000", b"\x66\x90": "6690", b"\x0f\x1f": "6690",
    b"\x66\x0f\x1f": "6690", b"\xf3\x0f\x1e\xfa": "f30f1efa", b"\xc3": "c3", b"\xe8": "eb00", b"\xe9": "eb00",
    b"\xeb": "eb00", **{bytes([0x70 + code]): "eb00" for code in range(16)},
    **{bytes([0x0F, 0x80 + code]): "eb00" for code in range(16)}, **{bytes([0x50 + code]): "55" for code in range(8)},
    **{bytes([0x41, 0x50 + code]): "55" for code in range(8)},
}  # fmt: skip
_STEPPED = "4889f8"  # mov %rdi,%rax

Kind = tuple[str, bool, int]
"""The instruction that stands for its like, in hex digits, whether the probe is a return probe, and the sample type of
its perf event, 0 where it takes no samples.
"""


def instruction_like(code: bytes) -> str:
    """The instruction to try for one that begins so: itself where it is harmless, else one that kernels treat alike
    (arch_uprobe_analyze_insn of x86: nops, branches and pushes can be emulated, the rest is single-stepped).
    """
    return next((stands_for for start, stands_for in _LIKE.items() if code.startswith(start)), _STEPPED)


class HitCosts:
    """Measures lazily; `close` ends what is under way."""

    def __init__(self) -> None:
        self._known: dict[Kind, Cost] = {}
        self._failed: set[Kind] = set()
        self._process: Worker | None = None
        self._asked: list[Kind] = []

    def of(self, sites: Sequence[Site], sample_type: int = 0) -> Cost | None:
        """The mean over these sites; None while some of their kinds are being measured."""
        if self._process is not None and not self._take(self._process):
            return None
        found = [_kind(site, sample_type) for site in sites[:: -(-len(sites) // _MOST_SITES) or 1]]
        kinds = [kind for kind in found if kind is not None]
        if missing := list(dict.fromkeys(kind for kind in kinds if kind not in self._known)):
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
        from tracer.kernel.workers.spawn import start

        self._asked = kinds
        try:
            self._process = start(_PROCESS)
            with suppress(BrokenPipeError):
                os.write(self._process.to, json.dumps(kinds).encode() + b"\n")
        except OSError as error:
            self._learn([error.strerror or str(error)] * len(kinds))

    def _take(self, process: Worker) -> bool:
        """Whether the process has answered, or died."""
        if not readable((process.back,), 0):
            return False
        answer = os.read(process.back, 1 << 16)  # one write of a line, or nothing from one that died
        self._end(process)
        died = "the process that measures it died"
        self._learn(json.loads(answer) if answer.endswith(b"\n") else [died] * len(self._asked))
        return True

    def _learn(self, answers: list[float | str]) -> None:
        """What failed once is asked again: beside much other work one of some forty measurements does."""
        for kind, answer in zip(self._asked, answers, strict=True):
            if not isinstance(answer, str):
                self._known[kind] = Cost(answer)
            elif kind in self._failed:
                self._known[kind] = Cost(ASSUMED_NS, answer)
            else:
                self._failed.add(kind)

    def _end(self, process: Worker) -> None:
        self._process = None
        os.close(process.to)
        os.close(process.back)
        process.reap()


def _kind(site: Site, sample_type: int) -> Kind | None:
    from tracer.kernel.trials.instructions import codes_of

    try:
        (code,) = codes_of([site])
    except OSError:
        return None
    return instruction_like(code), site.kind == "uretprobe", sample_type
