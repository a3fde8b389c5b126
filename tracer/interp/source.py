"""Writing the Python source of one clause.

No text of the user's is ever part of that source: integers stand in it as digits, everything else (strings, formats,
maps, the runtime) is bound to a made-up name that the generated function finds in its namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tracer.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A Python expression that can stand anywhere as an operand.

    `low` and `high` bound an integer's value. `stable` says that it gives the same value whenever it is evaluated in
    this hit: a constant, or a local variable that is set once.
    """

    text: str
    low: int = 0
    high: int = 0
    stable: bool = False


def integer(value: int) -> Code:
    """An integer constant."""
    value = int(value)
    return Code(str(value) if value >= 0 else f"({value})", value, value, stable=True)


class Writer:
    """Lines of source with their depth, temporaries, and the values bound to names."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {}
        self.depth = 1
        self.effects = 0
        self._lines: list[tuple[int, str]] = []
        self._temporaries = 0

    def line(self, text: str) -> None:
        """Appends a line at the present depth."""
        self._lines.append((self.depth, text))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A compound statement: `head` and, one deeper, what is written meanwhile."""
        self.line(head)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def mark(self) -> int:
        """The place after the last line, for `insert` and for comparing."""
        return len(self._lines)

    def insert(self, mark: int, text: str) -> None:
        """Puts a line before what was written since `mark`, at the present depth."""
        self._lines.insert(mark, (self.depth, text))

    def temporary(self) -> str:
        """A fresh local variable's name."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    def keep(self, code: Code) -> Code:
        """The same value in a form that may be used more than once: a fresh variable, unless it is stable already."""
        if code.stable:
            return code
        name = self.temporary()
        self.line(f"{name} = {code.text}")
        return Code(name, code.low, code.high, stable=True)

    def bind(self, value: object, prefix: str) -> str:
        """A name for a value in the function's namespace; equal values of one kind share it."""
        for name, bound in self.names.items():
            if name.startswith(prefix) and bound is value:
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def text(self) -> str:
        """All lines, indented."""
        return "".join(f"{'    ' * depth}{text}\n" for depth, text in self._lines)
