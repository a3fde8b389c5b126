"""Maps that a program prints again and again, as a live table, or where there is no terminal as plain tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.render.live.table import Table, keys_help
from tracer.render.text import TextRenderer

if TYPE_CHECKING:
    from tracer.lang.typed import Program
    from tracer.results.values import MapSnapshot

COUNTS, SUMS, PERCENTILES = "@calls", "@sum", "@quantiles"

_ENTER, _LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"


class Screen:
    """Where a table is drawn: `size` says how wide and high it is now, `typed` gives the keys since the last time."""

    def __init__(
        self, size: Callable[[], tuple[int, int]], typed: Callable[[], bytes], quit: Callable[[], object]
    ) -> None:
        self.size, self.typed, self.quit = size, typed, quit


class LiveTable(TextRenderer):
    """Draws the table on a `screen`, or writes it, `rows` of it, where there is none. The maps are those that the
    program of `tracer top` prints, the last of which is a look.
    """

    def __init__(self, values: bool, rows: int, program: Program, *rest: Any, hz: int = 0) -> None:
        super().__init__(program, *rest)
        self.table = Table(values, hz)
        self._last_map = PERCENTILES if values else COUNTS
        self._rows = rows
        self.screen: Screen | None = None
        self.as_json: Callable[[Table], bytes] | None = None
        self._looked = time.monotonic()
        self._sums: dict[bytes, int] = {}
        self._drawn: tuple[object, ...] = ()
        self._typing: bytes | None = None
        self._entered = False

    def attached(self, probes: int) -> None:
        """The first look begins here."""
        self._looked = time.monotonic()

    def print_time(self, text: bytes) -> None:
        """Each table has it."""

    def print_map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        """One of the maps of a look."""
        values = self._values(snapshot)
        if snapshot.decl.name != self._last_map:
            self._sums = {key: value for key, value in values.items() if isinstance(value, int)}
            return
        now = time.monotonic()
        seconds, self._looked = now - self._looked, now
        percentiles = {key: value for key, value in values.items() if isinstance(value, dict)}
        counts = {key: value["count"] for key, value in percentiles.items()} or {
            key: value for key, value in values.items() if isinstance(value, int)
        }
        self.table.look(counts, self._sums, percentiles, seconds)
        if self.screen is None:
            self._print()
        else:
            self._drawn = ()

    def _values(self, snapshot: MapSnapshot) -> dict[bytes, object]:
        """The counts, or the parts of the quantiles, by the texts of the keys."""
        decl = snapshot.decl
        key_text = self.text.key(decl.key)
        return {key_text(key): AGGREGATIONS[decl.kind].parts(decl, value, 1) for key, value in snapshot.items.items()}

    def _print(self) -> None:
        if self.as_json is not None:
            self.write(self.as_json(self.table))
            return
        lines = self.table.lines(1 << 12, self._rows + 1)
        self.write(b"%b\n%b\n\n" % (time.strftime("%H:%M:%S").encode(), b"\n".join(lines)))

    def maps(self, snapshots: Any) -> None:
        """All has been printed."""

    def flush(self) -> None:
        """Takes what was typed, and draws what has changed."""
        if self.screen is not None:
            for key in self.screen.typed():
                self._key(bytes((key,)))
            self._draw(self.screen)
        super().flush()

    def finish(self) -> None:
        """Leaves the screen as it was, with the last table below."""
        self.leave()
        super().finish()

    def leave(self) -> None:
        """The same, however a trace ends."""
        if self._entered and self.screen is not None:
            self._entered = False
            lines = self.table.lines(self.screen.size()[0], self._rows + 1)
            self.screen = None
            self.write(_LEAVE + b"\n".join(lines) + b"\n")
            super().flush()

    @property
    def drawn(self) -> bool:
        """Whether the table has the screen."""
        return self._entered

    def _key(self, key: bytes) -> None:
        table, screen = self.table, self.screen
        assert screen is not None
        self._drawn = ()
        if self._typing is not None:
            if key in (b"\r", b"\n"):
                table.filter, self._typing = self._typing, None
            elif key == b"\x1b":
                self._typing = None
            else:
                self._typing = self._typing[:-1] if key in (b"\x7f", b"\b") else self._typing + key
        elif key == b"q":
            screen.quit()
        elif key == b"s":
            table.sort_by_next()
        elif key == b"f":
            table.freeze()
        elif key == b"/":
            self._typing = b""

    def _draw(self, screen: Screen) -> None:
        width, height = screen.size()
        state = width, height, self._typing
        if state == self._drawn:
            return
        self._drawn = state
        foot = b"filter: " + self._typing if self._typing is not None else keys_help(self.table)
        lines = [*self.table.lines(width, max(height - 1, 1))]
        lines += [b""] * (height - 1 - len(lines)) + [foot[: width - 1]]
        self.write((b"" if self._entered else _ENTER) + b"\x1b[H" + b"\x1b[K\r\n".join(lines[:height]) + b"\x1b[K")
        self._entered = True
