"""The values that the steps of a clause read at a hit: the values that a backend delivers and Python computes with.

A hit reaches the Python of a clause as one flat tuple with a value for each of `leaves(steps)`, in that order, in the
Python form of `lang.types`; None where it could not be read (which ends the clause when, and only when, the value is
needed). Strings are delivered uncut; the steps cut them. A string whose size is known only at the hit (`Text.measured`)
is delivered as a `Reach`: whether it can be read depends on that size.
"""

from __future__ import annotations

from tracer.steps.model import Fetch, Steps
from tracer.steps.values import BuiltIn, InMemory, Source
from tracer.steps.walk import walk

_STARTED = BuiltIn("started")


def leaves(steps: Steps) -> tuple[Fetch, ...]:
    """The first fetch of each source that is a part of the hit, in the order of the program."""
    found: dict[Source, Fetch] = {}
    for step in walk(steps.body):
        if isinstance(step, Fetch) and not step.unused and is_leaf(step.source):
            found.setdefault(step.source, step)
    return tuple(found.values())


def is_leaf(source: Source) -> bool:
    """Whether a source is a part of the hit, and not memory at a computed address."""
    return source != _STARTED and (is_based(source) or not isinstance(source, InMemory))


def is_based(source: Source) -> bool:
    """Whether a source is memory at another source plus a constant."""
    return isinstance(source, InMemory) and source.base is not None
