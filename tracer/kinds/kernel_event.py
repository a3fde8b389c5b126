"""The sites of events of the kernel."""

from __future__ import annotations

from tracer.dataclass import dataclass
from tracer.kinds.site import OwnOperand, Site

_OF_ONE_TASK = (
    "sched_prepare_exec", "sched_process_exec", "sched_process_exit", "sched_process_fork", "sched_process_wait",
)  # fmt: skip
"""Events of the scheduler whose thread is the one in which they happen, though they name it, or one that it starts."""


@dataclass(frozen=True, slots=True)
class Field(OwnOperand):
    """A field of an event's record, `offset` bytes from its start: a number of `size` bytes, or such bytes.

    `declared` is its type in C, as the event's `format` file has it. `located`: what is there is a u32 that says where
    the field's bytes are, `from_itself` counted from behind it (`__rel_loc`) rather than from the record's start.
    `beside`: it is not in the record, but known of the thread that makes it.
    """

    name: str
    declared: str
    offset: int
    size: int
    number: bool
    signed: bool = False
    located: bool = False
    from_itself: bool = False
    beside: bool = False

    @property
    def held(self) -> bool:
        """See `OwnOperand`."""
        return not self.number

    def __str__(self) -> str:
        """The field as C declares it: `char prev_comm[16]`, `__data_loc char[] filename`."""
        item, bracket, bound = self.declared.partition("[")
        return f"{item} {self.name}[{bound}" if bracket and not self.located else f"{self.declared} {self.name}"


@dataclass(frozen=True, slots=True)
class KernelEvent(Site):
    """An event that the kernel has, with its number. Its `args` are its fields, in the order of its record."""

    system: str
    name: str
    number: int

    everywhere = True

    @property
    def declarations(self) -> tuple[str, ...]:
        """See `Site`."""
        fields = [spec.operand for spec in self.args]
        return tuple([str(field) for field in fields if not (isinstance(field, Field) and field.beside)])

    @property
    def after_reading(self) -> str:  # type: ignore[override]
        """See `Site`. An execve() that succeeds returns in other memory."""
        before, begins, name = self.name.partition("sys_enter_")
        there = self.system == "syscalls" and begins and not before and name not in ("execve", "execveat")
        return f"tracepoint:syscalls:sys_exit_{name}" if there else ""

    @property
    def leads_to_kernel(self) -> bool:  # type: ignore[override]
        """See `Site`. The arguments of system calls are the program's."""
        return self.system not in ("syscalls", "raw_syscalls")

    @property
    def kernel_in_samples(self) -> bool:  # type: ignore[override]
        """See `Site`. For system calls perf takes the registers of the program (perf_syscall_enter, Linux 6.18)."""
        return self.system != "syscalls"

    @property
    def others(self) -> tuple[str, ...]:
        """See `Site`. Events of the scheduler happen in one thread and are about another, or about two."""
        if self.system != "sched" or self.name in _OF_ONE_TASK:
            return ()
        return tuple([spec.text for spec in self.args if spec.text == "pid" or spec.text.endswith("_pid")])
