"""The maps of `tracer syscalls` as a table."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.render.flow.renderer import duration
from tracer.render.text import TextRenderer

if TYPE_CHECKING:
    from tracer.lang.typed import Program
    from tracer.results.values import Key, MapSnapshot

ERRORS, TIMES, QUANTILES = "@errors", "@ns", "@quantiles"
"""The maps, in the order of their names, which is the one in which they are printed: the last makes the table."""

_HEADS = (b"calls", b"errors", b"total", b"mean", b"p99", b"max")
_WIDTHS = (9, 9, 10, 10, 10, 10)
_ERRORS = {
    **errno.errorcode, errno.EDEADLK: "EDEADLK", errno.EOPNOTSUPP: "EOPNOTSUPP", 512: "ERESTARTSYS",
    513: "ERESTARTNOINTR", 514: "ERESTARTNOHAND", 515: "ENOIOCTLCMD", 516: "ERESTART_RESTARTBLOCK",
}  # fmt: skip
"""The names that a kernel's program has for numbers of errors. Those from 512 on never reach a program: the kernel
begins the call anew, or makes EINTR of them (include/linux/errno.h).
"""


class SyscallTable(TextRenderer):
    """A row for each key, the one with the greatest total first; of these `rows`, where that is not None."""

    def __init__(self, rows: int | None, program: Program, *rest: Any) -> None:
        super().__init__(program, *rest)
        self._rows = rows
        self._maps: dict[str, Mapping[Key, Any]] = {}

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        """The table, unless the program has printed its maps itself."""
        for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.decl.name):
            self.print_map(snapshot, 0, 0)

    def print_map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        """One of the maps; the last makes the table."""
        decl = snapshot.decl
        if decl.name not in (ERRORS, TIMES, QUANTILES):
            super().print_map(snapshot, top, div)
            return
        self._maps[decl.name] = {
            key: AGGREGATIONS[decl.kind].parts(decl, value, 1) for key, value in snapshot.items.items()
        }
        if decl.name == QUANTILES:
            self._table(self.text.key(decl.key))

    def _table(self, shown: Any) -> None:
        totals, quantiles = self._maps[TIMES], self._maps[QUANTILES]
        errors: dict[Key, dict[int, int]] = {}
        for key, count in self._maps[ERRORS].items():
            errors.setdefault(key[:-1], {})[cast(int, key[-1])] = count
        rows = [(totals.get(key, 0), shown(key), key, parts) for key, parts in quantiles.items()]
        rows.sort(key=lambda row: (-row[0], row[1]))
        lines = [_line(_HEADS, b"system call")]
        for total, name, key, parts in rows[: self._rows]:
            of_call = errors.get(key, {})
            numbers = _numbers(parts["count"], sum(of_call.values()), total)
            cells = (*numbers, duration(parts["p99"]), duration(parts["max"]))
            lines.append(_line(cells, name + _named(of_call)))
        calls, total = sum(parts["count"] for *_, parts in rows), sum(row[0] for row in rows)
        failed = sum(sum(of_call.values()) for of_call in errors.values())
        if len(rows) != 1:
            lines.append(_line((*_numbers(calls, failed, total), b"", b""), b"in all"))
        self.write(b"\n".join(lines) + b"\n")


def error_name(number: int) -> str:
    """`ENOENT`; the number where it has no name."""
    return str(_ERRORS.get(number, number))


def _numbers(calls: int, errors: int, total: int) -> tuple[bytes, ...]:
    failed = b"%d" % errors if errors else b""
    return b"%d" % calls, failed, duration(total), duration(total // calls) if calls else b""


def _line(cells: Sequence[bytes], last: bytes) -> bytes:
    padded = [cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)]
    return b"".join(padded) + b"  " + last


def _named(errors: Mapping[int, int]) -> bytes:
    """`  ENOENT 45, EACCES 2`, the most frequent first."""
    ordered = sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    words = [f"{error_name(number)} {count}" for number, count in ordered]
    return f"  {', '.join(words)}".encode() if words else b""
