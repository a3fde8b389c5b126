"""The probes that stand in the kernel, whoever made them: what it tells of each, and which process holds it."""

from __future__ import annotations

from tracer.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has a descriptor on a probe, or whose number the probe's name has."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Standing:
    """A probe that stands in the kernel, whoever set it. `kind` is uprobe, uretprobe, kprobe, kretprobe or perf;
    `place` a file and an offset, or a function of the kernel, "" where the kernel does not tell it; `places` how many
    it has, of which `place` is the first. `through` says what made it: the group and name of a trace event, or the
    number and name of a BPF program. `hits` and `misses` are None where they are not counted.
    """

    kind: str
    place: str
    places: int
    through: str
    hits: int | None
    misses: int | None
    holders: tuple[Holder, ...]
