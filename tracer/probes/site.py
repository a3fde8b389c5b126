"""The results of resolution: sites of any sort, and the places of their arguments."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from tracer.dataclass import NamedTuple, dataclass, replace
from tracer.errors import TracerError

if TYPE_CHECKING:
    from tracer.host.maps import Picture


@dataclass(frozen=True, slots=True)
class Const:
    """A constant, before it is cut to the argument's size."""

    value: int


@dataclass(frozen=True, slots=True)
class Reg:
    """A register by its pt_regs name without decoration.

    x86-64: ax bx cx dx si di bp sp r8…r15 ip; aarch64: x0…x30 sp.
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
    """What `Site.tail` says in its lowest byte; the rest is the address of the probed function. `NONE`: a return like
    any other. `JUMP`: a jump of the function to another, its tail call; with `JUMP_IF` added to the number of an x86
    condition (0 to 15), one that is taken on that condition. `END`: a return of a function that such jumps lead to,
    directly or by more of them; it is one of the probed function where that one's call came there.
    """

    NONE, END, JUMP, JUMP_IF = 0, 1, 2, 16


LAST_ARGUMENT = 248
TAIL, TAIL_OF, FLAGS_SET, SIGN_DIFFERS, UNTAKEN, STACK_TOP = 254, 253, 252, 251, 250, 249
"""The numbers behind `LAST_ARGUMENT` of values of a site, beside its arguments. They are the parts of `Site.tail`, and
of a jump: which flags it asks for, whether it asks whether sign and overflow differ (0 or 1), and whether it is taken
where neither is so (1) or where one is (0); and what lies at the stack pointer.
"""

Spot = tuple[Hashable, ...]
"""What `Site.spot` says."""

Operand = Const | Reg | Mem | Global | GlobalPointer | Unreadable


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """One argument of a site: `text` as it stands in the note, `size` bytes (1, 2, 4, 8), sign- or zero-extended.

    `is_float`: the bits of a float or double (`8f@`), handed on as an integer of that size.
    """

    text: str
    size: int
    signed: bool
    operand: Operand
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """Where hits come from. A sort of sites is a class of its own that says the rest: `file_site.FileSite` is a place
    in a file, `timers.Clock` what comes with the time.

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

    @property
    def spot(self) -> Spot:
        """The same for sites that are one to the kernel."""
        return self.kind, self.probe

    @property
    def shown(self) -> str:
        """The probe as messages name it."""
        return self.probe

    def of_point(self, number: int) -> Site:
        """The site as one of another attach point."""
        return replace(self, point=number)


class Target:
    """The target of the trace: some processes with all their threads, or (without any) every process that maps the
    file.

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
        """What the processes have mapped: looked at once, until it is asked to be looked at again."""
        if self._pictures is None:
            if not self.pids:
                return ()
            from tracer.host.maps import Picture

            self._pictures = tuple(map(Picture, self.pids))
        return self._pictures

    def pictures_now(self) -> tuple[Picture, ...]:
        """The same as they are now, of those that are `fixed`: () where others are traced too."""
        if self.follow:
            return ()
        self.look_again()
        return self.pictures

    def look_again(self) -> None:
        """What has changed since the pictures were looked at is found anew by who asks next."""
        for each in self.pictures:
            each.look_again()

    @property
    def child_pid(self) -> int:
        """`cpid`: that of the command of `-c`, 0 without one."""
        return self.pids[0] if self.program is not None and self.pids else 0


EVERY_PROCESS = Target()


class SiteLimit(NamedTuple):
    """How many sites a program may have: what is `left` of the `limit`."""

    limit: int
    left: int

    def less(self, taken: int) -> SiteLimit:
        """The limit that is left after that many more sites."""
        return SiteLimit(self.limit, self.left - taken)

    def check(self, wanted: int, what: str) -> None:
        """Raises `TracerError` where so many sites do not fit; `what` says what wants them."""
        if wanted <= self.left:
            return
        left = "" if self.left == self.limit else f" less {self.limit - self.left} others"
        raise TracerError(
            f"{what}, more than max_probes ({self.limit}){left}",
            f"narrow the pattern, or lift the limit: --max-probes {self.limit - self.left + wanted}",
        )


class NothingThere(TracerError):
    """The file has no such probe or function; another of several files may have it."""


class NoSuchLine(NothingThere):
    """The file knows the source file, but not that line of it."""


def fail_alike(failures: Sequence[TracerError], searches: int) -> bool:
    """Whether none of so many files can be searched, for one reason: those of a 32-bit process."""
    reasons = [each.message.partition(": ")[2] for each in failures if not isinstance(each, NothingThere)]
    return len(reasons) == searches and len({*reasons}) == 1
