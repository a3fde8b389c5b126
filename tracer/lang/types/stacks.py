"""Stacks, and addresses that are shown as symbols: their types and their values."""

from __future__ import annotations

from tracer.dataclass import NamedTuple, dataclass

STACK_FRAMES_MOST = 1024
"""Frames of one stack at most, as for bpftrace."""

STACK_MODES = ("bpftrace", "perf", "raw", "build_id", "python")


@dataclass(frozen=True, slots=True)
class StackType:
    """A stack of at most `frames` return addresses, shown as `mode` says: the user's, or the kernel's."""

    frames: int
    mode: str = "bpftrace"
    kernel: bool = False

    @property
    def interpreted(self) -> bool:
        """Whether the functions of an interpreter are frames of it."""
        return self.mode == "python"

    @property
    def words(self) -> int:
        """The most words that a hit may have of it: those of an interpreter stand behind the addresses, and are never
        so few that BPF keeps them on its own stack, where the verifier would follow each by itself.
        """
        return max(2 * self.frames, 16) if self.interpreted else self.frames

    def __str__(self) -> str:
        name = "kstack" if self.kernel else "ustack"
        return f"{name}[{self.frames}]" if self.mode == "bpftrace" else f"{name}[{self.mode}, {self.frames}]"


@dataclass(frozen=True, slots=True)
class SymbolType:
    """An address in the hit process, shown as the symbol that holds it (`usym`)."""

    def __str__(self) -> str:
        return "usym"


@dataclass(frozen=True, slots=True)
class KernelSymbolType:
    """An address of the kernel, shown as the function that holds it (`ksym`)."""

    def __str__(self) -> str:
        return "ksym"


class Stack(NamedTuple):
    """A stack as it was read: process and return addresses, innermost first. Where it is known which of its programs
    the process ran, its number stands above the 32 bits of the process's. A stack of the kernel is of no process: 0.
    """

    pid: int
    addresses: tuple[int, ...]


def is_interpreted(address: int) -> bool:
    """Whether what stands in the place of an address in a stack is the word of an interpreter's frame, of which
    `resolve.interpreters` knows more: no address of user space.
    """
    return address >> 62 == 1


def is_of_kernel(address: int) -> bool:
    """Whether an address is one of the kernel's half of the address space."""
    return address >> 63 == 1


class Symbol(NamedTuple):
    """An address in a process, to be shown as a symbol."""

    pid: int
    address: int
