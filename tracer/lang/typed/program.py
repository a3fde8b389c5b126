"""The program: its clauses, its maps, its texts and its settings."""

from __future__ import annotations

from typing import Literal

from tracer.dataclass import dataclass, field
from tracer.errors import Diagnostic, Source, Span
from tracer.kinds.model import ClauseKind
from tracer.kinds.site import Site, period_ns
from tracer.lang.typed.expressions import Expr, Stmt
from tracer.lang.types import Type

OutputKind = Literal["errorf", "warnf", "debugf", "cat", "system", "join"]


@dataclass(frozen=True, slots=True)
class Output:
    """The use of a text that is not printed as printf does: it is a message, the name of a file to show, a command
    to run, or what `join()` prints. `span` is the call, `within` the calls of macros and functions that it stands in,
    the innermost first.
    """

    kind: OutputKind
    span: Span
    within: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class MapDecl:
    """A map: its name with the `@`, the types of its key's parts (() without key), and what it holds.

    `value` is the scalar's type, or the integer type that an aggregation works in (its signedness decides how sum, min,
    max, avg, stats and hist read it). `kind` is "scalar" or the name of an aggregation; `parameters` are its constants.
    `most` is how many keys its declaration (`let @x = hash(5);`) allows, 0 without one; `forgets`: where there are as
    many, the key that was written longest ago makes room for a new one (`lruhash(5)`). `inner`: tracer's own, which no
    program can name and nothing shows.
    """

    name: str
    key: tuple[Type, ...]
    kind: str
    value: Type
    span: Span
    parameters: tuple[int, ...] = ()
    most: int = 0
    forgets: bool = False
    inner: bool = False


@dataclass(frozen=True, slots=True)
class Until:
    """The end of a span: its kind of clause, attach point and sites, and the key that the start and the end compute, ()
    for the thread.
    """

    kind: ClauseKind
    name: str
    span: Span
    sites: tuple[Site, ...]
    keys: tuple[tuple[Expr, ...], tuple[Expr, ...]] = ((), ())


@dataclass(frozen=True, slots=True)
class Clause:
    """`probe, probe /predicate/ { body }`.

    `kind` says when it runs: at hits of its `sites`, which all are of one sort (places in files mix usdt, uprobe and
    uretprobe), or in user space. `slots` are the types of the scratch variables. `names` are the attach
    points as written, `spans` where they stand. `ends`: the id of the clause that runs where the calls begin which end
    at the sites of this one: both are of the same attach points (`plan.calls`).
    `until`: of a span, which begins at the `sites`; `closes`: it is the clause at the end of one. `unasked`:
    it is tracer's own, at an event that nobody has named. `written`: of a call or span, the predicate and the body as
    they were written, at the attach point that tells whether it was hit. `exits`: the events at which what it has
    noted of a thread is to be forgotten.
    """

    id: int
    kind: ClauseKind
    names: tuple[str, ...]
    predicate: Expr | None
    body: tuple[Stmt, ...]
    slots: tuple[Type, ...]
    span: Span
    sites: tuple[Site, ...] = ()
    spans: tuple[Span, ...] = ()
    ends: int | None = None
    until: Until | None = None
    closes: bool = False
    unasked: bool = False
    written: tuple[Expr | None, tuple[Stmt, ...]] | None = None
    exits: tuple[Site, ...] = ()

    @property
    def as_written(self) -> tuple[Expr | None, tuple[Stmt, ...]]:
        """The predicate and the body that a hit leads to."""
        return self.written or (self.predicate, self.body)

    @property
    def is_end(self) -> bool:
        """Whether it runs where calls or a span end: it shall run from before they begin, and until after it."""
        return self.ends is not None or self.closes

    @property
    def period_ns(self) -> int:
        """The nanoseconds between two runs, where it comes with the time; else 0."""
        return period_ns(self.sites)


@dataclass(frozen=True, slots=True)
class Calls:
    """The maps of tracer's own that keep the calls of a clause. `open` has those under way, by thread, function
    and stack pointer, or by process, `goroutine`, function and what stands for that: when each began, and its
    arguments; `memory` what was read there as they began ("" for nothing). `read` is where these stand in the text, and
    their types, the `noted` arguments first. `unseen` counts ends whose beginning was not seen, `abandoned` calls
    without an end, which others in their place have shown. `functions` are the names by number.
    `innermost`: the map of the innermost call of a function in a thread, "" where nobody asks for `depth`.

    Of a span (`is_span`) the one "function" is the span, and `open` has those under way by thread, or by `keys` (where
    they stand in the text), and by how many are under way around it with that key. `abandoned` counts
    those whose thread has ended ("" where that is not seen).
    """

    open: str
    memory: str
    unseen: str
    abandoned: str
    functions: tuple[str, ...]
    read: tuple[tuple[Span, Type], ...]
    noted: int
    goroutine: bool = False
    is_span: bool = False
    keys: tuple[tuple[Span, Type], ...] = ()
    innermost: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of `config = { … }` and the environment: sizes in bytes, counts, words. A `stack_copy` of 0 leaves
    it to the backend how much of a stack is copied to be walked.
    """

    max_strlen: int = 1024
    max_map_keys: int = 16384
    max_probes: int = 16384
    max_cat_bytes: int = 10240
    stack_copy: int = 0
    stack_frames: int = 127
    stack_mode: str = "bpftrace"
    stack_unwind: str = "auto"
    missing_probes: str = "error"
    unsafe_returns: bool = False
    unsafe: bool = False
    inlined: bool = False
    show_stacks: bool = False
    typed_retval: bool = False
    print_maps_on_exit: bool = True
    show_debug_info: bool = False
    cpp_demangle: bool = True
    str_trunc_trailer: str = ""
    tuning: tuple[tuple[str, int | bool | str], ...] = ()
    """Settings that only `config()` tells."""


@dataclass(frozen=True, slots=True)
class Program:
    """The whole typed program. `formats` are printf and time texts, `outputs` says of those that are not printed what
    becomes of them; `shapes` are the types that print() shows. `call_probes`: of the probes of calls that cost
    differently, what the instruction at the entry is like, and whether the end is a return probe.

    Bytes of a format that are not UTF-8 stand in it as Python's surrogate escapes, so in `TimestampType.format`.
    """

    source: Source
    clauses: tuple[Clause, ...]
    maps: dict[str, MapDecl]
    formats: tuple[str, ...]
    shapes: tuple[Type, ...]
    config: Config = field(default_factory=Config)
    warnings: tuple[Diagnostic, ...] = ()
    outputs: dict[int, Output] = field(default_factory=dict)
    calls: tuple[Calls, ...] = ()
    call_probes: tuple[tuple[str, bool], ...] = ()

    def most_keys(self, map: str) -> int:
        """The number of keys that a map can hold."""
        return self.maps[map].most or self.config.max_map_keys
