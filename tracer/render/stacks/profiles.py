"""Stacks as every format of `tracer.render.stacks` takes them: named, the outermost frame first, each with a value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from tracer.dataclass import NamedTuple, dataclass

Kind = Literal["user", "library", "kernel", "jit", "python", "label", "other"]
"""Where a frame's code comes from; "label" is no code but another part of the key, "other" not known."""

KINDS: Final[tuple[Kind, ...]] = ("user", "library", "kernel", "jit", "python", "label", "other")

OF_KERNEL = "[kernel]"
"""The path of the kernel's own frames; those of a module have its name, `[ext4]`."""

_LIBRARY = re.compile(r"\.so(\.[0-9.]+)?$|/ld-[^/]*$")
_PYTHON = re.compile(r"\.py:|^<(?:frozen [^>]*|string|stdin)>:")
_KERNEL = ("[vdso]", "[vsyscall]", "[kernel", "[unknown kernel")


class Module(NamedTuple):
    """The file mapped at a frame's address: `limit` is the first address behind it, `offset` that of `start` in the
    file. `build_id` in hexadecimal, "" where there is none.
    """

    start: int
    limit: int
    offset: int
    path: str
    build_id: str


class Frame(NamedTuple):
    """One frame. `address` is where the code runs; of a caller, inside the instruction that calls. 0: not known."""

    name: str
    kind: Kind = "other"
    path: str = ""
    address: int = 0
    module: Module | None = None


class Sample(NamedTuple):
    """One entry of a map: the parts of its key that are no stack, the frames, outermost first, and the value."""

    labels: tuple[str, ...]
    frames: tuple[Frame, ...]
    value: int

    @property
    def path(self) -> tuple[Frame, ...]:
        """The labels as frames below the outermost one, as flame graphs show them."""
        return (*(Frame(label, "label") for label in self.labels), *self.frames)


@dataclass(frozen=True, slots=True)
class Profile:
    """One map, or one file of stacks. `keys` names the labels as the program writes them; `unit` is what is counted."""

    name: str
    unit: str
    samples: Sequence[Sample]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The texts of a document beside the stacks. `compare`: its two profiles are shown as the difference of the second
    from the first.
    """

    title: str = ""
    compare: bool = False
    time_ns: int = 0


def kind_of(name: str, path: str | None) -> Kind:
    """The kind of a frame by its name and the file that is mapped there: "" for memory of no file, None if unknown."""
    if _PYTHON.search(name):
        return "python"
    if path is None:
        return "other"
    if path.startswith(_KERNEL):
        return "kernel"
    if not path.startswith("/") or path.startswith(("/memfd:", "/dev/zero", "//")):
        return "jit"
    return "library" if _LIBRARY.search(path) else "user"


def printable(text: str) -> str:
    """The text on one line, with nothing in it that a terminal, a browser or a reader of lines could take for more than
    text: what is no printable character becomes an escape, each by itself.
    """
    if text.isprintable():
        return text
    return "".join([character if character.isprintable() else _escape(character) for character in text])


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return character.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return character.encode("unicode_escape").decode()
