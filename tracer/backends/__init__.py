"""The two backends, what both need, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from tracer.dataclass import dataclass

if TYPE_CHECKING:
    from collections import Counter

    from tracer.lang.types import Stack, Symbol
    from tracer.plan.model import Plan
    from tracer.resolve.interpreters.frames import Interpreters
    from tracer.resolve.unwind.walker import Step


class Unwinder(Protocol):
    """Walks user stacks by unwind tables; see `resolve.symbols.unwinder`."""

    endings: Counter[str]
    """How stacks ended, those too that were walked elsewhere."""
    wanted: int
    """The longest copy, in bytes, that a walk lacked since this was last set to 0: to go one frame further."""

    def unwind(
        self, pid: int, registers: Sequence[int | None], stack: memoryview, most: int,
        met: list[tuple[int, bool, Step]] | None = None, at_ns: int = 0, here: bool = True,
    ) -> Stack:  # fmt: skip
        """Pid, registers in perf's order (None: unknown), the words of the stack from its pointer up, and how many
        frames at most → addresses, innermost first. Each address whose meaning has not changed since goes to `met`,
        with whether a thread is there (and no call returns there), and how to leave its frame. `at_ns`: when
        (CLOCK_MONOTONIC), 0 for now. `here`: a thread is at the first address.
        """

    def state(self, pid: int) -> int:
        """The number of what a process has mapped now, which changes when that takes the place of something else."""

    def space(self, pid: int, state: int, addresses: tuple[int, ...]) -> int:
        """The number that stands for the process in a stack of these addresses, found elsewhere in a state of that
        number.
        """

    def altered(self) -> set[int]:
        """The processes that have changed their mappings since the last call: what was met there may no longer hold."""


class Places(Protocol):
    """Says what an address of a process means, at a moment or by what lay there."""

    def place(self, pid: int, address: int, moment: int) -> Symbol:
        """The symbol there at a moment (CLOCK_MONOTONIC, nanoseconds; 0 for now)."""

    def placed(self, pid: int, address: int, mapping: int) -> Symbol:
        """The symbol there when what lay there had that number (`symbols.processes.number_of`); 0 for unknown."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a session: what it needs of the trace that it is part of. `unwinder` walks user stacks by
    unwind tables, `interpreters` names the functions of interpreters on stacks, `places` keeps symbols what they were
    at the hit: each is None where no clause wants it. `wake` are descriptors that end a wait in `events` early when
    they become readable (a signal came, the target ended); the session only polls them, and does not read them. `kept`
    are descriptors that `attach` keeps open until no probe is left, even where tracer is killed. `waits` is called with
    a line where the kernel takes long to attach or remove probes.
    """

    unwinder: Unwinder | None
    interpreters: Interpreters | None
    places: Places | None
    wake: Callable[[], tuple[int, ...]]
    kept: Callable[[], tuple[int, ...]]
    waits: Callable[[str], None]

    def check(self, plan: Plan) -> None:
        """Raises `ValueError` where the plan's stacks would be empty, which nothing would count."""
        if self.unwinder is None and plan.walks_stacks:
            from tracer.kinds.arch import native

            if native() is None:
                return
            raise ValueError("the program wants stacks, and nothing is there that walks them")


ALONE = Surroundings(None, None, None, tuple, tuple, lambda line: None)
"""Of a session that nothing is around: its program wants no stack or symbol, and nobody ends it early."""
