"""The attachers of BPF programs: what differs by the sort of sites is asked of the attacher of the kind of probe."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tracer.backends.bcc.codegen.function import Context
from tracer.dataclass import NamedTuple, dataclass
from tracer.errors import TracerError
from tracer.kernel.workers.watcher import Watcher
from tracer.kinds.site import FileSite, Site, Spot
from tracer.plan.model import Plan, ProbePlan

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost, HitCosts

Marked = tuple[Site, int]
"""A site, and the cookie by which its program knows it."""

Held = tuple[int, int, int]
"""A link or event, the number of its attach point, and how many sites it has."""


class Job(NamedTuple):
    """A clause, one of its programs, the number of the attach point, and the sites where it runs, of one sort."""

    probe: ProbePlan
    program: int
    point: int
    sites: list[Marked]


@dataclass(slots=True)
class Attaching:
    """A session that attaches. `pids`: each has links or events of its own; () for one of each for all. `held` gets
    what is attached. `processes`: those that are traced, as far as they are known.
    """

    plan: Plan
    pids: Sequence[int]
    multi: bool
    watcher: Watcher
    held: list[Held]
    stop: Callable[[], bool]
    processes: Sequence[int] = ()


class Work:
    """The work of an attacher in one session. `left_out` are the places that the kernel does not probe: some from the
    beginning, some once all is attached.
    """

    def __init__(self, attaching: Attaching) -> None:
        self.attaching = attaching
        self.left_out: dict[Spot, FileSite] = {}

    def plan_jobs(self, jobs: Sequence[Job]) -> None:
        """Takes all jobs that are this attacher's, before the first is attached."""

    def attach(self, job: Job) -> None:
        """Attaches one of them. Raises `TracerError`, `Refused`, and `Stopped` once the session's `stop` says so."""
        raise NotImplementedError

    def attached(self) -> None:
        """Takes note that all jobs of all attachers are attached."""

    def keep_up(self) -> None:
        """Called now and then."""

    def closing(self, descriptors: Collection[int]) -> None:
        """These of what is `held` are about to be closed."""

    @property
    def idle(self) -> Collection[int]:
        """Those of what is `held` at whose hits nothing runs once the others are closed; see `Watcher.close`."""
        return ()

    @property
    def missed(self) -> Sequence[str]:
        """Sentences for the end about what may have been missed."""
        return ()

    @property
    def misses(self) -> int:
        """Hits so far at which the kernel ran no program, since another was running on that CPU."""
        return 0

    def end(self) -> None:
        """Lets go of what is needed only to attach; called in any case."""

    def close(self) -> None:
        """Undoes what closing what is `held` does not; called when that is closed."""


class Attacher(Protocol):
    """The programs of some kinds of probes, and the way in which they are attached.

    Where its programs run at the hits of all processes, whichever are traced, they test whose hit it is
    (`Plan.shared`). `in_order`: those at one site run in the order in which they were attached; else the last first.
    `cookies`: what is attached tells its programs the cookie of its site; where not, a program is for one site.
    """

    in_order: bool
    cookies: bool

    @property
    def context(self) -> Context:
        """The context that its C functions are given."""

    def sleeps(self, sites: Sequence[Site]) -> bool:
        """Whether programs there can wait for a page, where the kernel has such programs at all."""

    def load(
        self, code: bytes, name: str, sleepable: bool, multi: bool, functions: Sequence[int], explained: bool
    ) -> int:
        """The descriptor of a program; see `bpf.program_load`."""

    def begin(self, attaching: Attaching) -> Work:
        """Begins the work of a session, before its first job. Raises as `Work.attach`."""

    def cost(self, sites: Sequence[Site], costs: HitCosts) -> Cost | None:
        """The cost of a hit; None while that is being measured."""


class Refused(Exception):
    """The kernel does not attach to some sites: its error, and these."""

    def under(self, probe: ProbePlan, plan: Plan) -> TracerError:
        """The error under the attach points of the clause."""
        from tracer.backends.bcc.attach.refused import under

        return under(probe, plan, *self.args)


Programs = Mapping[tuple[int, int], int]
"""The descriptors of programs by the variant and the number of the attach point."""
