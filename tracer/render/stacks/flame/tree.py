"""Stacks merged from their roots on, as flame graphs draw them: rows in preorder, which the page's script reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracer.dataclass import NamedTuple, dataclass
from tracer.render.stacks.profiles import Frame, Kind, Page, Profile


class Row(NamedTuple):
    """A frame below others: its depth, its place in `Tree.names`, its value, and in a comparison that before."""

    depth: int
    name: int
    value: int
    before: int


class Name(NamedTuple):
    """The name that frames show: the same wherever they stand."""

    text: str
    kind: Kind
    path: str


@dataclass(frozen=True, slots=True)
class Tree:
    """One graph. `left_out` is how many stacks have no width: their values are 0 or less."""

    name: str
    unit: str
    names: Sequence[Name]
    rows: Sequence[Row]
    compared: bool = False
    left_out: int = 0


class _Node:
    __slots__ = ("below", "values")

    def __init__(self) -> None:
        self.values = [0, 0]
        self.below: dict[Name, _Node] = {}


def trees(profiles: Sequence[Profile], page: Page) -> list[Tree]:
    """A tree for each profile, or the one of a comparison."""
    if page.compare:
        before, after = profiles
        return [_tree(f"{after.name} against {before.name}", after, before)]
    return [_tree(profile.name, profile) for profile in profiles]


def _tree(name: str, profile: Profile, before: Profile | None = None) -> Tree:
    root, left_out = _Node(), 0
    for side, compared in enumerate((profile, before)):
        for sample in compared.samples if compared is not None else ():
            if sample.value <= 0:
                left_out += 1
                continue
            node = root
            node.values[side] += sample.value
            for frame in sample.path:
                node = node.below.setdefault(_name(frame), _Node())
                node.values[side] += sample.value
    names: dict[Name, int] = {}
    rows = [
        Row(depth, names.setdefault(shown, len(names)), *node.values)
        for depth, shown, node in _preorder(Name("all", "label", ""), root)
    ]
    return Tree(name, profile.unit, list(names), rows, before is not None, left_out)


def _name(frame: Frame) -> Name:
    return Name(frame.name or "-", frame.kind, frame.path)


def _preorder(shown: Name, root: _Node) -> Iterator[tuple[int, Name, _Node]]:
    """Walks the tree without recursion: a file of folded stacks may be of any depth."""
    pending = [(0, shown, root)]
    while pending:
        depth, name, node = pending.pop()
        yield depth, name, node
        pending += [(depth + 1, child, node.below[child]) for child in sorted(node.below, reverse=True)]
