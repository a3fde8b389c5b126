"""Writing the Python source of one clause.

No text of the user's is ever part of that source: integers stand in it as digits, everything else (strings, formats,
maps, the runtime) is bound to a made-up name that the generated function finds in its namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Lines of source with their depth, temporaries, and the values bound to names."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {}
        self._depth = 2
        self._lines: list[str] = []
        self._temporaries = 0

    def line(self, text: str) -> None:
        """Appends a line at the present depth."""
        self._lines.append("    " * self._depth + text + "\n")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A compound statement: `head` and, one deeper, what is written meanwhile."""
        self.line(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def temporary(self) -> str:
        """A fresh local variable's name."""
        self._temporaries += 1
        return f"w{self._temporaries}"

    def bind(self, value: object, prefix: str) -> str:
        """A name for a value in the function's namespace; the same value under one prefix shares it."""
        for name, bound in self.names.items():
            if name.startswith(prefix) and bound is value:
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def text(self) -> str:
        """The whole source: a function of the bound values that makes the clause's. Bound values are its parameters:
        local look-ups, not global ones, while a clause runs.
        """
        body = "".join(self._lines) or "        pass\n"
        return f"def make({', '.join(self.names)}):\n    def clause(hit):\n{body}    return clause\n"
