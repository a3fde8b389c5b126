"""The plan: which clause runs at which sites, how it reads them, and what a backend must be able to do for it.

`lower` makes it from the typed program; a backend compiles it. A clause whose sites keep their arguments in different
places gets one `Variant` for each distinct layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass
from tracer.errors import Span
from tracer.kinds.site import ArgSpec, FileSite, Site, in_files
from tracer.lang.typed import Clause, Expr, Program, UStack
from tracer.lang.types import operations
from tracer.lang.walk import walk_clause
from tracer.steps.model import Steps
from tracer.steps.values import Op
from tracer.steps.walk import parts, used, walk

if TYPE_CHECKING:
    from tracer.lang.features import Feature


@dataclass(frozen=True, slots=True)
class Variant:
    """The sites of one clause that can share one compiled function.

    `args` holds, for each argument index the clause uses, where it is at these sites (indices it does not use are left
    out). `told` holds what the sites say (`SITE_VALUES`), by the name of the built-in, of those that the clause uses.
    """

    id: int
    args: dict[int, ArgSpec]
    told: dict[str, bytes | int]
    sites: tuple[Site, ...]

    @property
    def places(self) -> Sequence[FileSite]:
        """The sites that are places in files: all, or () where they are of another sort."""
        return in_files(self.sites)


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """A probe clause with its variants; variant ids are unique in the whole plan."""

    clause: Clause
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class Need:
    """Something the program asks of a backend, the construct that asks, and where it stands."""

    feature: Feature
    construct: str
    span: Span


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a backend needs to compile. `user` are the clauses BEGIN, END and interval, which run in user space;
    `steps` are the steps of each clause by its id. `follow` says that the descendants of the traced process are traced
    as well, `shared` that others run into the probes too and it is told at a hit whose it is (so it is where `follow`
    holds), `separate_points` that an attach point may have to be detached while others go on, `priority` that a process
    of raised priority may empty the kernel's buffers. `sites_so_far`: where attach points also mean files that are
    mapped later, the sites of each clause of the syntax tree so far, by its index; None elsewhere.
    """

    program: Program
    probes: tuple[ProbePlan, ...]
    user: tuple[Clause, ...]
    needs: tuple[Need, ...]
    steps: dict[int, Steps]
    follow: bool = False
    shared: bool = False
    separate_points: bool = False
    priority: bool = True
    sites_so_far: Mapping[int, tuple[Site, ...]] | None = None

    @property
    def sites(self) -> tuple[Site, ...]:
        """All sites, in the order of the program."""
        return tuple(chain.from_iterable(variant.sites for probe in self.probes for variant in probe.variants))

    @property
    def places(self) -> tuple[FileSite, ...]:
        """The sites that are places in files."""
        return tuple(chain.from_iterable(variant.places for probe in self.probes for variant in probe.variants))

    @property
    def has_return_probes(self) -> bool:
        """Whether any site replaces a return address."""
        return any(site.is_return_probe for site in self.places)

    def computes(self, operation: operations.Operation) -> bool:
        """Whether any step does that."""
        values = (value for steps in self.steps.values() for step in walk(steps.body) for value in used(step))
        return any(isinstance(part, Op) and part.op is operation for value in values for part in parts(value))

    @property
    def walks_stacks(self) -> bool:
        """Whether stacks are walked by unwind tables; else by frame pointers, or none is wanted."""
        return self.program.config.stack_unwind != "fp" and self.wants(UStack)

    def wants(self, node: type[Expr]) -> bool:
        """Whether a clause of a probe has such an expression."""
        return any(isinstance(part, node) for probe in self.probes for part in walk_clause(probe.clause))
