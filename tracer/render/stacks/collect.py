"""The collector makes a profile of a map of stacks: it names every address while the processes are still known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from tracer.lang.fixed_width import quotient
from tracer.lang.types import (
    EnumType,
    IntType,
    PointerType,
    Stack,
    StackType,
    TupleType,
    Type,
    is_interpreted,
    is_of_kernel,
)
from tracer.lang.walk import walk_clause
from tracer.render.stacks.profiles import OF_KERNEL, Frame, Module, Profile, Sample, kind_of, printable
from tracer.render.value_text import frames_of
from tracer.results.order import ordered

if TYPE_CHECKING:
    from tracer.lang.typed import MapDecl, Program
    from tracer.render.value_text import Symbolizer, ValueText
    from tracer.results.values import MapSnapshot

_NO_STACK = Frame("[no stack]", "other")
_ADDS_UP = ("count", "sum")
_COMMON = ("__init__.py", "__main__.py")
_LINE = re.compile(r":\d+\Z")
_OFFSET = re.compile(r"\+\d+\Z")


def is_of_stacks(decl: MapDecl) -> bool:
    """Whether a map is one of stacks: its key has one and its values add up, or its values are stacks."""
    if isinstance(decl.value, StackType) and decl.kind == "scalar":
        return True
    keyed = any(isinstance(type, StackType) for type in _flat(decl.key))
    plain = isinstance(decl.value, IntType) and not isinstance(decl.value, PointerType | EnumType)
    return keyed and (decl.kind in _ADDS_UP or (decl.kind == "scalar" and plain))


class Collector:
    """Makes profiles of the maps of one program."""

    def __init__(self, program: Program, symbols: Symbolizer, text: ValueText) -> None:
        self._program = program
        self._symbols = symbols
        self._text = text
        self._frames: dict[tuple[int, int, bool, str], tuple[Frame, ...]] = {}
        self._modules: dict[tuple[int, int], Module] = {}

    def profile(self, snapshot: MapSnapshot, top: int, div: int) -> Profile:
        """The map as a profile, its entries in printing order."""
        decl = snapshot.decl
        types = _flat(decl.key)
        shown = [None if isinstance(type, StackType) else self._text.of(type) for type in types]
        samples = []
        for key, value in ordered(snapshot, top):
            parts = _flat_values(decl.key, key)
            labels = [show(part) for show, part in zip(shown, parts, strict=True) if show is not None]
            stacks = [pair for pair in zip(types, parts, strict=True) if isinstance(pair[0], StackType)]
            if isinstance(decl.value, StackType):
                stacks.append((decl.value, value))
                number = 1
            else:
                number = quotient(cast(int, value), div or 1)
            # The kernel runs on top of the program, whichever of them the key has first.
            stacks.sort(key=lambda pair: cast(StackType, pair[0]).kernel)
            frames = [frame for type, stack in stacks for frame in self._stack(cast(StackType, type), stack)]
            names = tuple(printable(label.decode("utf-8", "surrogateescape")) for label in labels)
            samples.append(Sample(names, tuple(frames) or (_NO_STACK,), number))
        unit = "count" if decl.kind == "count" or isinstance(decl.value, StackType) else "value"
        return Profile(decl.name, unit, samples, self._names(decl, types))

    def _stack(self, type: StackType, stack: Stack) -> Iterator[Frame]:
        for address, returned in reversed(list(frames_of(stack, self._symbols))):
            wanted = (stack.pid, address, returned, type.mode)
            if wanted not in self._frames:
                frame = self._frame(*wanted)
                self._frames[wanted] = (frame, *self._inlined(frame, *wanted))
            yield from self._frames[wanted]

    def _frame(self, pid: int, address: int, returned: bool, mode: str) -> Frame:
        if is_interpreted(address):
            # Without the line, as native frames are without the offset: a function is one frame, wherever it is.
            name, file = _LINE.sub("", self._symbols.frame(pid, address)), self._symbols.path(pid, address) or ""
            name = _short(file) + name.removeprefix(file) if file else name
            return Frame(printable(name), "python", printable(file))
        if is_of_kernel(address):
            name = f"{address:#x}" if mode == "raw" else _OFFSET.sub("", self._symbols.frame(pid, address, returned))
            return Frame(printable(name), "kernel", self._symbols.path(pid, address) or OF_KERNEL, address - returned)
        mapping = self._symbols.mapping(pid, address)
        build_id = self._symbols.build_id(pid, address)
        module = None
        if mapping is not None:
            module = self._modules.get((pid, mapping.start))
            if module is None or module.path != mapping.path or module.limit != mapping.end:
                module_id = "" if build_id is None else build_id[0]
                module = Module(mapping.start, mapping.end, mapping.offset, mapping.path, module_id)
                self._modules[pid, mapping.start] = module
        name = self._symbols.frame(pid, address, returned)
        path = None if module is None else module.path
        unknown = name == f"{address:#x}"
        name = _OFFSET.sub("", name)
        if mode == "raw":
            name = f"{address:#x}"
        elif mode == "build_id" and build_id is not None:
            name = f"{build_id[0]}+{build_id[1]:#x}"
        elif unknown and module is not None and module.path:
            # The same in each process and each run, which the address is not.
            name = f"[{module.path.rpartition('/')[2]}+{address - module.start + module.offset:#x}]"
        return Frame(printable(name), kind_of(name, path), printable(path or ""), address - returned, module)

    def _inlined(self, frame: Frame, pid: int, address: int, returned: bool, mode: str) -> Iterator[Frame]:
        """The functions that were inlined there, the outermost first. The address is that of the frame around them."""
        if mode in ("raw", "build_id"):
            return
        for name, _ in reversed(self._symbols.sources(pid, address, returned)[:-1]):
            yield frame._replace(name=printable(name), address=0, module=None)

    def _names(self, decl: MapDecl, types: Sequence[Type]) -> tuple[str, ...]:
        """The program's words for each label, for readers who ask by name."""
        written: list[str] = []
        for clause in self._program.clauses:
            for node in walk_clause(clause):
                if getattr(node, "map", None) == decl.name and len(getattr(node, "key", ())) == len(types):
                    source = self._program.source.text
                    written = [source[part.span.start : part.span.end] for part in cast(Any, node).key]
        several = [f"key{place}" for place in range(1, len(types) + 1)]
        names = [name.strip() or several[place] for place, name in enumerate(written)] or several
        kept = [name for name, type in zip(names, types, strict=True) if not isinstance(type, StackType)]
        return tuple(printable(name) for name in kept)


def _short(path: str) -> str:
    """The name of a file, with its folder where many have that name."""
    folder, _, name = path.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{name}" if name in _COMMON and folder else name


def _flat(types: Sequence[Type]) -> list[Type]:
    """The parts of a key, those of tuples in their place."""
    flat: list[Type] = []
    for type in types:
        flat += _flat(type.items) if isinstance(type, TupleType) else [type]
    return flat


def _flat_values(types: Sequence[Type], values: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for type, value in zip(types, values, strict=True):
        flat += _flat_values(type.items, value) if isinstance(type, TupleType) else [value]
    return flat
