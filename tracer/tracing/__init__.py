"""A trace from start to end: what is asked, what it consists of, and the loop that runs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tracer.choices import BACKENDS
from tracer.dataclass import dataclass, field, replace
from tracer.errors import ProgramError, Source, UsageError

Whom = int | str | Sequence[int | str]
"""The number of a process, its exact name, or several of these; in a text they may stand between commas."""

if TYPE_CHECKING:
    from tracer.backends.choose import Activation
    from tracer.errors import Diagnostic
    from tracer.pipeline import Compiled
    from tracer.plan.model import Plan
    from tracer.resolve.files.paths import Found
    from tracer.target.child import Child
    from tracer.target.running import RunningProcesses

    Planned = tuple[Plan, list[Diagnostic]]


@dataclass(frozen=True, slots=True)
class Named:
    """The caller's names for the parts of a request that cannot stand together: its parameters, or its options."""

    pid: str = "pid"
    command: str = "command"
    follow: str = "follow"
    children: str = "children"
    max_rate: str = "max_rate"
    duration: str = "duration"


PARAMETERS = Named()


@dataclass(frozen=True, slots=True)
class Request:
    """A request: a program with its parameters, and whom to trace: the processes `pid`, or the `command` (a
    shell's words, or each by itself), or everybody; with `follow` what these start too, with `children` what descends
    from `pid` and runs now. `settings` are as in the program's
    `config`, and before it; `environment` is where BPFTRACE_MAX_STRLEN and its kin are looked for.

    `backend`: None chooses. `activation`: the user wants semaphores raised by tracer. `max_rate` is the most hits a
    second of an attach point, `duration_s` how long there are probes at most. Without `priority` the kernel's buffers
    are emptied at tracer's own. `quiet`: only what makes the answer incomplete is looked into; `verbose`: all there is.
    """

    source: Source
    params: Sequence[str] = ()
    pid: Whom | None = None
    command: str | Sequence[str] | None = None
    follow: bool = False
    children: bool = False
    backend: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] | None = None
    activation: bool = False
    max_rate: int | None = None
    priority: bool = True
    duration_s: float | None = None
    quiet: bool = False
    verbose: bool = False

    def check(self, named: Named) -> None:
        """Raises `UsageError` for what cannot be asked, in the caller's words."""
        check_whom(named, self.pid, self.command is not None, self.follow, self.children)
        if self.max_rate is not None and self.max_rate <= 0:
            raise UsageError(f"{named.max_rate} {self.max_rate}: a limit is positive", "it counts hits a second")
        if self.duration_s is not None and not self.duration_s > 0:
            raise UsageError(f"{named.duration} {self.duration_s}: no length of time", "it is in seconds")


class Prepared:
    """A request whose processes are held, so that their numbers cannot become others', and whose command is found:
    what it comes to. `argv` are the words of the command. A context manager, which lets go of the processes.
    """

    compiled: Compiled

    def __init__(self, request: Request, named: Named = PARAMETERS) -> None:
        """`named`: the caller's words. Raises `TracerError`."""
        request.check(named)
        from tracer.kinds.site import Target

        if request.backend is not None and request.backend not in BACKENDS:
            raise UsageError(f"no backend {request.backend}", f"there are {', '.join(BACKENDS)}")
        self.request = request
        self.argv, path = _command_line(request.command)
        self.processes: RunningProcesses | None = None
        if request.pid is not None:
            from tracer.target.running import processes_of

            asked = (request.pid,) if isinstance(request.pid, int | str) else request.pid
            self.processes = processes_of(asked, request.children, named.pid)
        self.target = Target(() if self.processes is None else self.processes.pids, path, request.follow)
        self.child: Child | None = None
        """The command, where it had to be started to see which files it maps."""

    def compile(
        self, planned: Callable[[Plan, Sequence[Diagnostic]], object] = lambda plan, warnings: None,
        need_usable: bool = True, once_mapped: Callable[[ProgramError], Planned] | None = None,
    ) -> Compiled:  # fmt: skip
        """Plans and compiles: see `pipeline`. `planned` is called between, with the plan and the warnings. Where no
        file is there yet that the program's patterns mean, `once_mapped` plans; without it that is an error.
        """
        from tracer import pipeline

        asked = self.request
        try:
            plan, warnings = self.plan(later=need_usable)
        except ProgramError as error:
            if not error.awaits_files or once_mapped is None:
                raise
            plan, warnings = once_mapped(error)
        if asked.max_rate is not None or not asked.priority:
            plan = replace(plan, separate_points=asked.max_rate is not None, priority=asked.priority)
        planned(plan, warnings)
        self.compiled = pipeline.compile(plan, asked.backend, need_usable, self._activation())
        return self.compiled

    def plan(self, later: bool, also: Collection[int] = ()) -> Planned:
        """The plan, and warnings. `later`: files may come later. `also`: descendants in which files are looked for."""
        from tracer import pipeline
        from tracer.kinds.site import Target

        asked, target = self.request, self.target
        if also:
            target = Target(dict.fromkeys((*target.pids, *also)), target.program, target.follow)
        return pipeline.plan(asked.source, asked.params, target, asked.environment, asked.settings, later=later)

    def more(self, plan: Plan, files: Sequence[Found]) -> Plan:
        """The plan of what files add that processes have mapped since. Raises `TracerError` where they add nothing, or
        it does not go with the `plan`.
        """
        from tracer import pipeline

        asked = self.request
        return pipeline.plan(
            asked.source, asked.params, self.target, asked.environment, asked.settings, later=True,
            more=pipeline.More(plan, files),
        )[0]  # fmt: skip

    def dump(self, stage: str) -> str:
        """A stage of the program, as `-d` shows it."""
        from tracer import pipeline

        asked = self.request
        return pipeline.dump(
            stage, asked.source, asked.params, self.target, asked.backend, asked.environment, self._activation(),
            asked.settings,
        )  # fmt: skip

    def _activation(self) -> Activation | None:
        asked = self.request
        if self.argv is None and not asked.follow and not asked.activation:
            return None
        from tracer.backends.choose import Activation

        return Activation.of(self.argv is not None, asked.follow, asked.activation)

    def close(self) -> None:
        """Lets go of the processes."""
        if self.processes is not None:
            self.processes.close()
        if self.child is not None:
            self.child.end()

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def check_whom(named: Named, pid: Whom | None, has_command: bool, follow: bool, children: bool) -> None:
    """Raises `UsageError` where it is not one whom to trace."""
    if pid is not None and has_command:
        raise UsageError(
            f"{named.pid} and {named.command} cannot be used together",
            f"{named.command} already traces its process alone",
        )
    if follow and pid is None and not has_command:
        raise UsageError(
            f"{named.follow} needs {named.pid} or {named.command}", "without them every process is traced already"
        )
    if children and pid is None:
        of_command = f"{named.follow} traces what {named.command} starts"
        raise UsageError(
            f"{named.children} needs {named.pid}",
            of_command if has_command else "without it every process is traced already",
        )


def _command_line(command: str | Sequence[str] | None) -> tuple[tuple[str, ...] | None, str | None]:
    """The words of a command, and the file that will run: what is wrong with it is said before all else."""
    if command is None:
        return None, None
    from tracer.target.child import find_program, parse_command

    argv = parse_command(command) if isinstance(command, str) else tuple(command)
    return argv, find_program(argv[0])
