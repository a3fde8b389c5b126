"""What a trace of system calls has to say of its spans, in the words of system calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass, replace
from tracer.errors import counted
from tracer.lang.builtins.data.syscalls import names
from tracer.render.loss import loss_messages
from tracer.render.notices import Lost, Notice
from tracer.tracing.open_calls import CallsTold

if TYPE_CHECKING:
    from tracer.results.events import Loss, OpenCall

_MOST_TOLD = 8
_NUMBER = re.compile(r"args\.id = (-?\d+)")


@dataclass(frozen=True, slots=True)
class _NotCounted(Notice):
    """The calls of which one end alone was seen, as it always is when threads begin and end."""

    loss: Loss

    def __str__(self) -> str:
        said = []
        if self.loss.unfinished:
            calls = counted(self.loss.unfinished, "call")
            said.append(f"{calls} without a return: exit and exit_group, or the thread was ended in it")
        if self.loss.orphaned:
            returns = counted(self.loss.orphaned, "return")
            said.append(f"{returns} without a call: the first of a new thread, or the call began before the trace")
        return f"not counted: {'; '.join(said)}"


@dataclass(frozen=True, slots=True)
class _Lost(Lost):
    """The losses, where there are others too."""

    def sentences(self) -> Sequence[str]:
        """See `Lost`."""
        others = loss_messages(replace(self.loss, orphaned=0, unfinished=0), self.program)
        return [*others, *([str(_NotCounted(self.loss))] if _one_end(self.loss) else [])]


def _one_end(loss: Loss) -> int:
    return loss.orphaned + loss.unfinished


@dataclass(frozen=True, slots=True)
class _UnderWay(Notice):
    """The system calls that were under way at the end."""

    calls: Sequence[OpenCall]

    def __str__(self) -> str:
        told = [_waiting(call) for call in self.calls[:_MOST_TOLD]]
        told += [f"{len(self.calls) - _MOST_TOLD} more"] if len(self.calls) > _MOST_TOLD else []
        return f"{counted(len(self.calls), 'call')} under way at the end, not counted: {'; '.join(told)}"


def as_wanted(notice: Notice, only: Collection[str] = ()) -> Notice | None:
    """What is said in the place of a notice about spans. `only`: the calls that are asked for, if not all."""
    if isinstance(notice, Lost):
        loss = notice.loss
        others = replace(loss, orphaned=0, unfinished=0)
        return _Lost(loss, notice.program, notice.exits) if others or not _one_end(loss) else _NotCounted(loss)
    if not isinstance(notice, CallsTold):
        return notice
    calls = [call for call in notice.calls if not only or _name(call) in only]
    return _UnderWay(calls) if calls else None


def _name(call: OpenCall) -> str:
    number = next((match[1] for argument in call.arguments if (match := _NUMBER.fullmatch(argument))), None)
    return "a system call" if number is None else names().word(int(number))


def _waiting(call: OpenCall) -> str:
    name = _name(call)
    seconds = call.age_ns / 1e9
    return f"{name} in thread {call.thread}, for {seconds:.1f} s"
