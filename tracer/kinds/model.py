"""The object of a probe kind, and the attach points that it makes.

Who adds a kind writes one `ProbeKind`, and a test. The parser asks it for its spellings and for the attach point, the
checker for what a clause may read, the resolver for sites, the reference page for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from tracer.dataclass import NamedTuple, dataclass
from tracer.errors import Diagnostic, Fault, Span, TracerError

if TYPE_CHECKING:
    from tracer.kinds.site import FileIdentity, FileSite, Site

UNITS = "hz", "ms", "s", "us"
LONGEST_PERIOD_NS = 1 << 62
DURATIONS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_HEX = r"(?P<hex>0[xX][0-9a-fA-F][0-9a-fA-F_]*)"
_COUNT = _HEX + r"|(?P<digits>[0-9][0-9_]*)(?:e(?P<exponent>[0-9]+))?(?P<unit>ns|us|ms|[smhd])?"

AttachKind = Literal[
    "begin", "end", "interval", "self", "usdt", "uprobe", "uretprobe", "call", "tracepoint", "profile", "software",
    "hardware", "watchpoint",
]


@dataclass(frozen=True, slots=True)
class ClauseKind:
    """The occasion on which a clause runs.

    `at_hits`: in the kernel, at hits of its sites, which all are of one sort; the others run in user space. `first`:
    once, before anything is attached; `last`: once, after everything is detached; `signal`: when tracer is told to by
    one; the others run again and again.
    `type`: the value of `probetype` of those in user space.
    """

    name: str
    at_hits: bool = False
    first: bool = False
    last: bool = False
    signal: bool = False
    type: str = "special"

    @property
    def repeats(self) -> bool:
        """Whether it may run more than once."""
        return not (self.first or self.last)


AT_HITS = ClauseKind("probe", at_hits=True)
AT_ENDS = ClauseKind("call", at_hits=True)
"""A clause of calls reads values of their beginning and of their end (`plan.calls`)."""


@dataclass(frozen=True, slots=True)
class AttachPoint:
    """An attach point, the text before a clause: `usdt:/bin/app:prov:name`, `uprobe:libc:malloc+4`, `interval:s:1`.

    `path`, `provider` and `name` may hold the wildcards of glob(7); None stands for a part that was left out
    (`usdt::prov:name`, `usdt:/bin/app:name`). `address` is the form `uprobe:/bin/app:0x1234`, a virtual address of the
    file, and `file_offset` is `uprobe:/bin/app:offset:0x1234`, a place in it. `text` is the attach point as written.
    `source`, `line` and `column` are a place in source text (`uprobe:/bin/app:src/shop.c:36`,
    `uprobe:/bin/app@shop.c:36:5`); no column is 0, and `last` is the last line of `uprobe:/bin/app@shop.c:30-40`.
    `until` is the end of `span:PROBE..PROBE`, whose start this is.
    `by_line` is `uprobe:/bin/app@shop.c:total:*`: each line of the functions. `cpp` is bpftrace's
    `uprobe:/bin/app:cpp:"ns::f"`: the name is one of C++ too. `length` and `access` are those of a watchpoint.
    """

    kind: AttachKind
    text: str
    span: Span
    path: str | None = None
    provider: str | None = None
    name: str | None = None
    offset: int = 0
    address: int | None = None
    file_offset: int | None = None
    period_ns: int = 0
    source: str | None = None
    line: int = 0
    column: int = 0
    last: int = 0
    by_line: bool = False
    cpp: bool = False
    length: int = 0
    access: int = 0
    until: AttachPoint | None = None
    apart: tuple[str, str] | None = None
    """Of `uprobe:/bin/app@shop.c:total*` "/bin/app" and "shop.c", which are meant unless there is a file of the whole
    `path`; then they become `path` and `source`, without a line.
    """

    @property
    def is_placed(self) -> bool:
        """Whether it says more than the names of functions: an address, a place in the file, or source text."""
        return (self.address, self.file_offset, self.source) != (None, None, None)

    @property
    def is_of_lines(self) -> bool:
        """Whether it means lines of source text."""
        return self.line > 0 or self.by_line

    @property
    def names_no_file(self) -> bool:
        """Whether its path is a pattern, or left out."""
        path = self.path if self.apart is None else self.apart[0]
        return not path or "*" in path or "?" in path or "]" in path.partition("[")[2]


class Part(NamedTuple):
    """The text between two colons; `bare` is the part after its last quoted piece (all of it without quotes)."""

    text: str
    bare: str
    span: Span


class SiteLimit(NamedTuple):
    """The number of sites that a program may have: what is `remaining` of the `limit`."""

    limit: int
    remaining: int

    def less(self, taken: int) -> SiteLimit:
        """The limit that remains after that many more sites."""
        return SiteLimit(self.limit, self.remaining - taken)

    def check(self, wanted: int, what: str) -> None:
        """Raises `TracerError` where so many sites do not fit; `what` says what wants them."""
        if wanted <= self.remaining:
            return
        others = "" if self.remaining == self.limit else f" less {self.limit - self.remaining} others"
        raise TracerError(
            f"{what}, more than max_probes ({self.limit}){others}",
            f"narrow the pattern, or lift the limit: --max-probes {self.limit - self.remaining + wanted}",
        )


class SearchedFile(Protocol):
    """A file in which a kind looks for the sites of an attach point; the resolver hands it to `ProbeKind.sites`.

    The searches raise `NothingThere` where the file has none, `TracerError` for a site that must not be probed.
    """

    def usdt_probes(self, point: AttachPoint) -> list[FileSite]:
        """The sites of the USDT probes that are meant."""

    def functions(self, point: AttachPoint) -> list[FileSite]:
        """The sites in the functions that are meant, or at an address."""

    def source_lines(self, point: AttachPoint) -> list[FileSite]:
        """The sites at lines of source text."""


class Machine(Protocol):
    """The machine in which a kind looks for sites; the resolver hands it to `ProbeKind.machine`. Raises `TracerError`
    where this user may not look.
    """

    def events(self, system: str, name: str) -> list[tuple[str, str]]:
        """System and name of the kernel's events that wildcards match, in the order of their names."""

    def layout(self, system: str, name: str) -> str:
        """The record of one of these, as its `format` file says it."""

    def near(self, system: str, name: str) -> str | None:
        """The remedy where there is none of a name."""


@dataclass(frozen=True, slots=True)
class InFile:
    """The place of a variable in a file: `address` there; `code` is the file offset and the address of the segment of
    its code, by which a process's mappings tell where the file is loaded. `copies`: where it is in programs that have a
    place of their own for it, which then all code of the process uses.
    """

    path: str
    shown: str
    identity: FileIdentity
    address: int
    code: tuple[int, int]
    copies: tuple[InFile, ...] = ()


class Memory(Protocol):
    """The memory of the traced processes in which a kind looks for sites; the resolver hands it to
    `ProbeKind.watches`.
    """

    def variable(self, path: str, name: str) -> tuple[InFile, int]:
        """The place of a variable of a file, or of a part of it, and its bytes. Raises `TracerError`."""


@dataclass(frozen=True, slots=True)
class ProbeKind:
    """A kind of probe.

    `spellings`: every word for it. `form`: how it is written, for hints and the reference. `build` makes an attach
    point of its parts, the kind's word among them; raises `Fault`. `clause`: when its clauses run; `where` names such a
    clause in messages. `alone`: the site that an attach point is by itself, of a kind that looks for none. `machine`:
    those that it finds in no file; `watches`: the one that is in the memory of processes. `reads` is what a clause may
    read beside what is known everywhere: "probe" (memory, stack, function of the hit process), "arguments", "note"
    (which says the size and sign of each argument), "return", "call" (how long it took), "fields" (of an event's
    record), "stack" (of a program that is stopped in the kernel, or anywhere), "memory" (of the process alone),
    "mode" (whether the program was interrupted or the kernel), "signal" (the clause may send one), "registers".
    `target` names what it finds in a file, "" where it goes into none; `sites` finds it there. `pattern`:
    provider, name and whether the name is C++'s alone, of what follows the file where it is listed; raises `ValueError`
    with what it takes. `units`: what follows the word where there is no file to list. `places`: what `Site.kind` says
    of its sites. `told`: what they are called together, and the value that tells them apart.
    """

    name: AttachKind
    spellings: tuple[str, ...]
    form: str
    build: Callable[[str, list[Part], Span], AttachPoint]
    clause: ClauseKind
    where: str
    reads: frozenset[str] = frozenset()
    target: str = ""
    source_lines: bool = False
    sites: Callable[[AttachPoint, SearchedFile], list[FileSite]] | None = None
    pattern: Callable[[list[str]], tuple[str, str, bool]] | None = None
    units: Callable[[], tuple[str, ...]] | None = None
    alone: Callable[[AttachPoint], Site] | None = None
    machine: Callable[[AttachPoint, Machine], list[Site]] | None = None
    watches: Callable[[AttachPoint, Memory], Site] | None = None
    places: tuple[str, ...] = ()
    told: tuple[str, str] = ("functions", "func")

    @property
    def has_notes(self) -> bool:
        """Whether its sites are those of notes of the file, which say what their arguments are and where."""
        return "note" in self.reads

    @property
    def enters(self) -> bool:
        """Whether its sites are in functions and before their ends: parameters are known at the first instruction."""
        return "arguments" in self.reads and not self.has_notes

    @property
    def ends(self) -> bool:
        """Whether its sites are at the returns of functions, or have these too."""
        return "return" in self.reads

    @property
    def pairs(self) -> bool:
        """Whether a site is a call, its entry and its return as one."""
        return "call" in self.reads


def malformed(form: str, span: Span, message: str) -> Fault:
    """A fault whose remedy is the form of the attach point."""
    return Fault(Diagnostic(message, span, f"write {form}"))


def miscount(kind: str, fields: list[str], wanted: str) -> str:
    """The message for a number of parts that no form has."""
    if any(field == "" for field in fields[1:-1]) and len(fields) > 3:
        return f"the {kind} attach point has too many parts: a name that holds colons needs quotes"
    if len(fields) < 2:
        return f"the {kind} attach point is incomplete: it needs {wanted}"
    return f"the {kind} attach point has too many parts"


def count_of(text: str) -> int | None:
    """A number as in the language, but for octal ones; with a duration it is in nanoseconds."""
    count_text = re.fullmatch(_COUNT, text)
    if count_text is None:
        return None
    if count_text["hex"]:
        return int(count_text["hex"].replace("_", "")[:40], 16)
    exponent = min(int((count_text["exponent"] or "0")[:3]), 25)
    count: int = int(count_text["digits"].replace("_", "")[:25]) * 10**exponent
    return count * DURATIONS_NS[count_text["unit"] or "ns"]
