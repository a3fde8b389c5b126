"""The notices of a trace, beside its results, are typed values that reach every consumer. `str()` makes the sentence
for people, last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass
from tracer.errors import and_more, counted

if TYPE_CHECKING:
    from tracer.errors import Diagnostic, Source
    from tracer.lang.typed import Program
    from tracer.results.events import Event, Loss
    from tracer.results.values import MapSnapshot, MapStore

NOTE, WARNING, DETAIL, DATA = "note", "warning", "detail", "data"
"""How much a notice matters: a note is left out where only results are wanted; a warning, that the answer lacks
something, is not; a detail is for those who want to know all; data is for programs, and people are told otherwise.
"""

_NAMED, _NAMED_PLACES = 8, 3
_NAMED_POINTS = 3
"""Attach points for one reason that have a sentence each; more share one."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One finding of a trace; `str()` is its sentence, without a full stop."""

    weight = NOTE


@dataclass(frozen=True, slots=True)
class Said(Notice):
    """One that is its sentence."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Attached(Notice):
    """The probes are in place, so many at so many sites, through `backend`; None where nothing is traced."""

    probes: int
    sites: int
    backend: str | None

    def __str__(self) -> str:
        return f"Attached {counted(self.probes, 'probe')}"


class Chosen(Said):
    """The traced processes, where a name or descendants were asked for; and where others have the probes too."""


class PassedOver(Said):
    """The reason why a backend that would come first does not run the program."""


class Raised(Said):
    """The processes in which tracer itself has raised semaphores."""


@dataclass(frozen=True, slots=True)
class NotFollowed(Notice):
    """Descendants of the processes that had been started before they could be followed."""

    pids: tuple[int, ...]
    descendants: tuple[int, ...]

    def __str__(self) -> str:
        its, run = ("descendant", "runs") if len(self.descendants) == 1 else ("descendants", "run")
        one = len(self.pids) == 1
        who = f"process {self.pids[0]} starts" if one else f"these {len(self.pids)} processes start"
        whom = f"{'its' if one else 'their'} {its} {_numbers(self.descendants)}, which {run} already"
        return f"--follow traces what {who} from now on, not {whom}: --children traces those too"


@dataclass(frozen=True, slots=True)
class Overhead(Notice):
    """An attach point that slows the traced programs down, or was detached for that; said under the program's text."""

    source: Source
    diagnostic: Diagnostic

    def __str__(self) -> str:
        return self.diagnostic.message


class Detail(Said):
    """A detail of how the trace is done."""

    weight = DETAIL


class Warned(Said):
    """Something that makes the answer incomplete, or changes what it means."""

    weight = WARNING


class Incomplete(Warned):
    """Results behind an attach point that was detached."""


class Missed(Warned):
    """Hits that may have been missed, and that no loss counts."""


class Missing(Warned):
    """The server or file system that is waited for, and what is missing since it did not answer."""


class GivenUp(Warned):
    """A search beside the answer that was given up, for want of descriptors or memory."""


class NotUndone(Warned):
    """A deed that could not be undone as it should be."""


class CommandFailed(Warned):
    """The end of the trace's command, where that was not well."""


class StacksBroken(Warned):
    """Stacks, or names of what is on them, that are not whole."""


@dataclass(frozen=True, slots=True)
class Waits(Notice):
    """The kernel takes long to attach or remove probes. `ending`: the results are complete."""

    weight = WARNING
    why: str
    ending: bool

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True, slots=True)
class LeftOut(Notice):
    """Places of a pattern that the kernel would not probe, beside as many as it has `attached`."""

    weight = WARNING
    places: tuple[str, ...]
    attached: int

    def __str__(self) -> str:
        names = and_more(self.places[:_NAMED_PLACES], len(self.places))
        places = counted(self.attached + len(self.places), "place")
        return f"{len(self.places)} of {places} left out: the kernel cannot probe the instruction at {names}"


@dataclass(frozen=True, slots=True)
class OlderFile(Notice):
    """Processes that run an older file of a probed path, which was replaced since, in a trace of all."""

    weight = WARNING
    path: str
    pids: tuple[int, ...]

    def __str__(self) -> str:
        whom = _numbers(self.pids)
        if len(self.pids) == 1:
            return f"process {whom} runs an older {self.path}, replaced since, and is not traced; -p {whom} traces it"
        return f"processes {whom} run an older {self.path}, replaced since, and are not traced; -p PID traces one"


@dataclass(frozen=True, slots=True)
class Replaced(Notice):
    """Another file has the name of a probed one by now."""

    weight = WARNING
    path: str

    def __str__(self) -> str:
        since = "programs started since then run the new file, which was not probed"
        return f"{self.path} was replaced during the trace: {since}"


@dataclass(frozen=True, slots=True)
class BeingWritten(Notice):
    """Somebody is about to write a probed file, so the trace has ended."""

    weight = WARNING
    path: str

    def __str__(self) -> str:
        harm = "probes in a changing file harm the programs that run it"
        return f"the trace was ended because somebody is about to write {self.path}: {harm}"


@dataclass(frozen=True, slots=True)
class Lost(Notice):
    """The losses: see `results.events.Loss`. `exits`: an exit() may be among it."""

    weight = WARNING
    loss: Loss
    program: Program
    exits: bool = False

    def sentences(self) -> Sequence[str]:
        """One for each cause."""
        from tracer.render.loss import loss_messages

        more = ["exit() may be among what was lost: what came after it may have been counted"] if self.exits else []
        return [*loss_messages(self.loss, self.program), *more]

    def __str__(self) -> str:
        return "; ".join(self.sentences())


@dataclass(frozen=True, slots=True)
class NotHit(Notice):
    """Attach points without a hit, of `total`, all for one `reason` ("" where it was said before): within the first
    `seconds`, or until the end.
    """

    weight = WARNING
    points: tuple[str, ...]
    total: int
    reason: str
    seconds: float | None = None

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        when = "" if self.seconds is None else f"in the first {self.seconds:.0f} s"
        if len(self.points) == self.total:
            return f"no hit {when}{why}" if when else f"no probe was hit{why}"
        were = f"not hit {when}" if when else "never hit"
        if len(self.points) == 1:
            return f"{self.points[0]} was {were}{why}"
        return f"{len(self.points)} of {counted(self.total, 'attach point')} were {were} ({_some(self.points)}){why}"


@dataclass(frozen=True, slots=True)
class FirstHits(Notice):
    """Hits, after so many seconds, of attach points that were told to have none; no `points` where those were all."""

    weight = WARNING
    points: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        whose = f"{_some(self.points)}: " if self.points else ""
        return f"{whose}first hits after {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class BreakpointGone(Notice):
    """The breakpoint of functions was gone from the memory of a process, and is set again."""

    weight = WARNING
    names: str
    whom: str

    def __str__(self) -> str:
        gone = f"the breakpoint of {self.names} was gone from the memory of {self.whom}"
        why = "which gave the page back (MADV_DONTNEED), or the kernel had not set it"
        return f"{gone}, {why}: it is set again, and calls before are not counted"


@dataclass(frozen=True, slots=True)
class CallsMissed(Notice):
    """An attach point that was hit, and could be hit no more in a process that goes on. `hits` is -1 in a trace of all
    processes.
    """

    weight = WARNING
    point: str
    hits: int
    reason: str

    def __str__(self) -> str:
        if self.hits < 0:
            return f"{self.point} misses calls: {self.reason}"
        return f"{self.point} was hit {_times(self.hits)}, and calls after that are not counted: {self.reason}"


@dataclass(frozen=True, slots=True)
class NeverHeld(Notice):
    """An attach point that was hit, and whose predicate held for no hit."""

    weight = WARNING
    point: str
    hits: int

    def __str__(self) -> str:
        return f"{self.point} was hit {_times(self.hits)}, and its predicate never held"


@dataclass(frozen=True, slots=True)
class NeverHit(Notice):
    """One attach point that was never hit; people are told of all with one reason at once (`NotHit`)."""

    weight = DATA
    point: str
    reason: str

    def __str__(self) -> str:
        return f"{self.point} was never hit{f': {self.reason}' if self.reason else ''}"


@dataclass(frozen=True, slots=True)
class Detached(Notice):
    """An attach point that was detached, which had `hits` within `seconds` and was attached for `after_s`. `maps` are
    incomplete from there on. People are told by `Overhead` and `Incomplete`.
    """

    weight = DATA
    point: str
    hits: int
    seconds: float
    after_s: float
    maps: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.point} was detached after {self.after_s:.1f} s ({self.hits} hits in {self.seconds:.2f} s)"


@dataclass(frozen=True, slots=True)
class Ended(Notice):
    """The end: the code of exit(), the hits of all probes (-1: not known), and how long probes were there."""

    weight = DATA
    code: int
    hits: int
    seconds: float

    def __str__(self) -> str:
        return f"{counted(self.hits, 'hit')} in {self.seconds:.1f} s"


class PlacesNotHit(Warned):
    """Places of a pattern that were never hit, where others were."""


class Consumer:
    """Takes what a trace gives. Every method may be called from the trace's thread alone, and does nothing here."""

    def attached(self, probes: int) -> None:
        """Says how many probes are attached: whoever reads that may rely on it."""

    def event(self, event: Event, store: MapStore) -> None:
        """Something that a probe, BEGIN, END or an interval says; `store` is read for print(@x)."""

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        """Maps: at the end, and where somebody asks for them meanwhile."""

    def lost(self, loss: Loss) -> None:
        """Says what was lost, if anything."""

    def silent(self, probe: str, reason: str) -> None:
        """An attach point was never hit, and why."""

    def detached(self, probe: str, hits: int, seconds: float, after_s: float, maps: Sequence[str]) -> None:
        """An attach point was detached, which had `hits` within `seconds` and was attached for `after_s`. `maps` are
        incomplete from here on.
        """

    def notice(self, notice: Notice) -> None:
        """Anything else that is to be said."""

    def flush(self) -> object:
        """No more comes for now."""

    def finish(self) -> None:
        """The results are complete; probes may still be there."""

    def end(self) -> None:
        """Nothing more comes."""


def _times(hits: int) -> str:
    return "once" if hits == 1 else f"{hits} times"


def _some(points: Sequence[str]) -> str:
    if len(points) <= _NAMED_POINTS:
        return ", ".join(points)
    return ", ".join(points[:_NAMED_POINTS]) + f" and {len(points) - _NAMED_POINTS} more"


def _numbers(pids: Sequence[int]) -> str:
    shown = [str(pid) for pid in pids[:_NAMED]]
    shown += [f"{len(pids) - _NAMED} more"] if len(pids) > _NAMED else []
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
