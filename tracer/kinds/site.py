"""The results of resolution: sites of any sort, and the places of their arguments.

Addresses are virtual addresses as the ELF file states them (before any load bias); offsets are offsets into the file,
which is what the kernel's uprobes take.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from tracer.dataclass import dataclass, replace

if TYPE_CHECKING:
    from tracer.host.maps import Picture


@dataclass(frozen=True, slots=True)
class Const:
    """A constant, before it is cut to the argument's size."""

    value: int


@dataclass(frozen=True, slots=True)
class Reg:
    """A register by its pt_regs name without decoration.

    x86-64: ax bx cx dx si di bp sp r8…r15 ip; i386: those without a number; aarch64: x0…x30 sp.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Mem:
    """Memory at `base` + `index` * `scale` + `disp`; base or index may be absent (None)."""

    base: str | None
    disp: int
    index: str | None = None
    scale: int = 1


@dataclass(frozen=True, slots=True)
class Global:
    """Memory at a fixed place of the same file: `address` is the virtual address there, and the load bias is added.

    With `index` that register times `scale` is added. `fetch_offset` is what ftrace's `@+OFF` takes: `address` minus
    the difference between address and file offset in the segment that holds the *probe*. `site_delta` is `address`
    minus the address of the site, so that a program can add it to the instruction pointer.
    """

    address: int
    fetch_offset: int
    site_delta: int
    index: str | None = None
    scale: int = 1


@dataclass(frozen=True, slots=True)
class GlobalPointer:
    """The value stored in the GOT slot at `slot` (`sym@GOTPCREL(%rip)`): the operand's value is that pointer itself."""

    slot: Global


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An operand no backend can read, with the reason; only this argument is lost, not the probe."""

    reason: str


STACK_POINTER = 255
"""The number under which the stack pointer is an argument of every site, beside those that have an argN."""

class TailPlace:
    """The values of `Site.tail` in its lowest byte; the rest is the address of the probed function. `NONE`: a return
    like any other. `JUMP`: a jump of the function to another, its tail call; with `JUMP_IF` added to the number of an
    x86 condition (0 to 15), one that is taken on that condition. `END`: a return of a function that such jumps lead to,
    directly or by more of them; it is one of the probed function where that one's call came there.
    """

    NONE, END, JUMP, JUMP_IF = 0, 1, 2, 16


LAST_ARGUMENT = 247
POPPED = 248
"""The number of a value of a place: how many bytes the stack pointer is above the return address of the call."""
TAIL, TAIL_OF, FLAGS_SET, SIGN_DIFFERS, UNTAKEN, STACK_TOP = 254, 253, 252, 251, 250, 249
"""The numbers behind `LAST_ARGUMENT` of values of a site, beside its arguments. They are the parts of `Site.tail`, and
of a jump: which flags it asks for, whether it asks whether sign and overflow differ (0 or 1), and whether it is taken
where neither is so (1) or where one is (0); and what lies at the stack pointer.
"""

REGISTER_ARGUMENT = 256
"""From this number on: the registers of an i386 program as arguments, by their numbers in DWARF."""

REGISTERS_32 = ("ax", "cx", "dx", "bx", "sp", "bp", "si", "di")
"""Their names, by these numbers."""

Spot = tuple[Hashable, ...]
"""The value of `Site.spot`: it is the same for sites that are one to the kernel."""


class OwnOperand:
    """An operand that only sites of one sort have: their sort says what it is, and their attachers read it."""

    __slots__ = ()

    @property
    def held(self) -> bool:
        """Whether it is the address of bytes that the hit itself holds, which are no memory of a process."""
        return False


Operand = Const | Reg | Mem | Global | GlobalPointer | Unreadable | OwnOperand


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """An argument of a site: `text` as it stands in the note, `size` bytes (1, 2, 4, 8), sign- or zero-extended.

    `is_float`: the bits of a float or double (`8f@`), handed on as an integer of that size. `word`: the bytes of an
    address of the program.
    """

    text: str
    size: int
    signed: bool
    operand: Operand
    is_float: bool = False
    word: int = 8


@dataclass(frozen=True, slots=True)
class Site:
    """A source of hits. A sort of sites is a class of its own that says the rest: `FileSite` is a place in a
    file, `Clock` what comes with the time.

    `kind`: what the object of its kind of probe lists in `ProbeKind.places`. `probe` is the full name that the `probe`
    built-in shows (`usdt:/bin/app:prov:name`, `uprobe:/bin/app:func`, `interval:s:1`), `function` what `func` shows.
    `args` is indexed by argN. `point` is the place of its attach point among those that its clause names.
    """

    kind: str
    probe: str
    function: str
    args: tuple[ArgSpec, ...]
    point: int

    in_file = False
    """Whether it is a `FileSite`."""

    in_memory = False
    """Whether it is in the memory of each process, which there must be before it is attached."""

    everywhere = False
    """Whether a BPF program there runs at the hits of all processes, whichever are traced."""

    leads_to_kernel, kernel_in_samples = False, True
    """Whether pointers that a hit has lead to memory of the kernel; whether perf's samples of it have its stack."""

    after_reading = ""
    """The probe that comes once the kernel has read the memory that the hit's arguments lead to: then it is there."""

    nameless = False
    """Whether a hit can be of a thread that has ended, of which nothing but BPF tells the number."""

    @property
    def declarations(self) -> tuple[str, ...]:
        """The fields of an event, as C declares them."""
        return ()

    @property
    def others(self) -> tuple[str, ...]:
        """The fields that name threads which a hit is about, beside the one in which it happens."""
        return ()

    @property
    def spot(self) -> Spot:
        """The key that is the same for sites that are one to the kernel."""
        return self.kind, self.probe

    @property
    def shown(self) -> str:
        """The probe as messages name it."""
        return self.probe

    def of_point(self, number: int) -> Site:
        """The site as one of another attach point."""
        return replace(self, point=number)


@dataclass(frozen=True, slots=True)
class Clock(Site):
    """The site of what comes with the time: every `period_ns`. Its `probe` is how bpftrace spells it, however it was
    written.
    """

    period_ns: int


def period_ns(sites: Sequence[Site]) -> int:
    """The nanoseconds between two runs of a clause; 0 where its sites are no clock."""
    return next((site.period_ns for site in sites if isinstance(site, Clock)), 0)


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The identity of a file when it was checked: compared again right before attaching. `ctime_ns`: None where
    unknown.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    build_id: str | None = None
    ctime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class FileSite(Site):
    """A place in a file where a probe goes.

    `kind` "uretprobe" replaces the return address of the function at `offset`; "ret" is an ordinary probe on one `ret`
    instruction of it, used where a return probe could kill the target. `function` is the symbol that holds the place,
    or "" in a stripped file; where the program does not ask for `func`, a C++ name is left as it stands in the symbol
    table. `args` of functions are the registers of the calling convention. `semaphore` is the file offset of the USDT
    semaphore. `red_zone`: a five-byte nop in a function that may keep data below the stack pointer; Linux from 6.18 on
    makes such a nop a call, which writes there (`kernel.trials.red_zone`). `nop10`: a one-byte nop with a ten-byte one
    behind it, where newer kernels probe faster (`kernel.trials.nop10`). `nests`: the function of a return probe may be
    called again before it has returned; at a `ret`: it is known to be. `tail`: of a function that ends in tail calls,
    what stands at the place: see `TailPlace`. `raised`: the file offset of a semaphore that is not `semaphore`, since
    the kernel would raise it in the wrong memory: tracer does it itself. `copy`: of an inlined copy of the function,
    which number its entry has in the debug information. `source_file` and `source_line` are the place in source text,
    "" and 0 where nobody has asked or nothing tells. `word`: the bytes of an address of the programs that run the file.
    `ends`: of a call, which is entered here, the places where it ends: the `kind`, `address` and `offset` of each;
    `goroutine`: of a function of Go, whose stack moves from thread to thread and in memory.
    """

    path: str
    identity: FileIdentity
    address: int
    offset: int
    semaphore: int | None = None
    semaphore_address: int | None = None
    red_zone: bool = False
    nop10: bool = False
    nests: bool = False
    tail: int = 0
    raised: int | None = None
    copy: int = 0
    source_file: str = ""
    source_line: int = 0
    word: int = 8
    ends: tuple[tuple[str, int, int], ...] = ()
    goroutine: bool = False

    in_file = True

    @property
    def spot(self) -> Spot:
        """See `Site`: device, inode, offset, and whether it is the function's return."""
        return self.identity.device, self.identity.inode, self.offset, self.is_return_probe

    @property
    def place(self) -> tuple[int, int, int]:
        """Device, inode and offset: one breakpoint of the kernel, which is that of a function and of its return."""
        return self.identity.device, self.identity.inode, self.offset

    @property
    def guard(self) -> int | None:
        """The file offset of its semaphore, whoever raises it."""
        return self.raised if self.semaphore is None else self.semaphore

    @property
    def shown(self) -> str:
        """The probe as messages name it: an address, which `probe` has in decimal, in hexadecimal."""
        before, colon, place = self.probe.rpartition(":")
        number, plus, offset = place.partition("+")
        if not number.isdecimal() or int(number) + (int(offset) if offset.isdecimal() else 0) != self.address:
            return self.probe
        return f"{before}{colon}{int(number):#x}{plus}{offset}"

    @property
    def line(self) -> int:
        """The line of source text that it is a place of, where the probe names one; else 0."""
        if self.shown != self.probe:
            return 0  # an address
        *_, before, last = ("", *self.probe.rsplit(":", 2))
        return int(before if before.isdecimal() else last) if last.isdecimal() else 0

    @property
    def is_return_probe(self) -> bool:
        """Whether the kernel replaces the function's return address, and the hit is at the return."""
        return self.kind == "uretprobe"

    @property
    def is_at_return(self) -> bool:
        """Whether it is an ordinary probe on an instruction that returns."""
        return self.kind == "ret"

    @property
    def of_calls(self) -> FileSite:
        """The place of a return probe, as one where a hit is a call."""
        return replace(self, kind="uprobe")

    def of_point(self, number: int) -> FileSite:
        """See `Site`; `replace` takes three times as long."""
        return FileSite(*(*_BEFORE_POINT(self), number, *_BEHIND_POINT(self)))


_AT = FileSite.__match_args__.index("point")
_BEFORE_POINT = attrgetter(*FileSite.__match_args__[:_AT])
_BEHIND_POINT = attrgetter(*FileSite.__match_args__[_AT + 1 :])


SITE_VALUES: dict[str, Callable[[Any], str | int]] = {
    "probe": attrgetter("probe"),
    "func": attrgetter("function"),
    "file": attrgetter("source_file"),
    "line": attrgetter("source_line"),
    "tail": lambda site: site.tail >> 8,
}
"""The built-in values that are known of each site before the first hit, and `TAIL_OF`."""


def in_files(sites: Sequence[Site]) -> Sequence[FileSite]:
    """Sites of one sort (as those of a clause are) as places in files; () where they are of another sort."""
    return cast("Sequence[FileSite]", sites) if sites and sites[0].in_file else ()


def places_among(sites: Iterable[Site]) -> list[FileSite]:
    """The places in files among sites of any sort."""
    return [site for site in sites if isinstance(site, FileSite)]


def paths_of(sites: Iterable[FileSite]) -> set[str]:
    """The paths of the files that some sites lie in."""
    return {site.path for site in sites}


def files_of(sites: Iterable[FileSite]) -> dict[tuple[int, int], str]:
    """The files that some sites lie in: the path, by device and inode."""
    first = {id(site.identity): site for site in sites}.values()  # to hash an identity takes long
    return {(site.identity.device, site.identity.inode): site.path for site in first}


class Target:
    """The target of the trace: some processes with all their threads, or without any all that map the file.

    `-c` is one process, once the child waits behind its pipe. Sites are resolved before that: `program` is then the
    file that the child will run. With `follow` it is about the processes too that descend from them from now on.
    """

    __slots__ = ("_pictures", "follow", "pids", "program")

    def __init__(self, pids: Iterable[int] = (), program: str | None = None, follow: bool = False) -> None:
        self.pids = tuple(pids)
        self.program = program
        self.follow = follow
        self._pictures: tuple[Picture, ...] | None = None

    @property
    def fixed(self) -> tuple[int, ...]:
        """The processes, where no others will come to them; () where every process is traced, or some are followed."""
        return () if self.follow else self.pids

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The mappings of the processes: looked at once, until it is asked to be looked at again."""
        if self._pictures is None and self.pids:
            from tracer.host.maps import Picture

            self._pictures = tuple(map(Picture, self.pids))
        return self._pictures or ()

    def pictures_now(self) -> tuple[Picture, ...]:
        """The mappings as they are now; () where processes that are not known yet are traced too."""
        if self.follow:
            return ()
        self.look_again()
        return self.pictures

    def look_again(self) -> None:
        """Lets who asks next find anew what has changed since the pictures were looked at."""
        for picture in self.pictures:
            picture.look_again()

    @property
    def child_pid(self) -> int:
        """`cpid`: that of the command of `-c`, 0 without one."""
        return self.pids[0] if self.program is not None and self.pids else 0


EVERY_PROCESS = Target()
