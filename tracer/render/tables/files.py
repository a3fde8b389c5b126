"""The maps of `tracer io`, with the names of the files that its descriptors lead to."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tracer.host.descriptors import Descriptors
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.render.flow.renderer import duration
from tracer.render.json import JsonRenderer
from tracer.render.renderer import Renderer
from tracer.render.tables.syscalls import error_name
from tracer.render.text import TextRenderer
from tracer.render.value_text import json_string
from tracer.results.events import PrintfBatch, PrintfEvent

if TYPE_CHECKING:
    from tracer.lang.typed import Program
    from tracer.results.events import Event
    from tracer.results.values import Key, MapSnapshot, MapStore

BYTES, ERRORS, QUANTILES = "@bytes", "@errors", "@quantiles"
"""The maps, in the order of their names, which is the one in which they are printed: the last makes the table. Keys
end in the process, the descriptor, its term, and which way: 0 reads, 1 writes, 2 neither; of errors the number.
"""
USED, OPENED = r"used by %d: %d, %lld\n", r"opened by %d: %d, %lld as %s\n"
COPIED = r"copied by %d: %d, %lld to %d, %lld\n"
ENDED, ENDED_ALL = r"%lld: ended by %d: %d, %lld\n", r"%lld: all ended by %d: %d\n"
"""What the program tells of descriptors. See `Descriptors`."""

_HEADS = (b"reads", b"bytes", b"writes", b"bytes", b"p50", b"p99", b"max")
_WIDTHS = (9, 12, 9, 12, 10, 10, 10)


class _File:
    """What is known of a file: calls and bytes by their way, errors by number, the times of the calls."""

    __slots__ = ("bytes", "calls", "errors", "name", "others", "times")

    def __init__(self, others: bytes, name: bytes) -> None:
        self.others, self.name = others, name
        self.calls, self.bytes, self.errors = [0, 0, 0], [0, 0, 0], Counter[int]()
        self.times: Any = None


class _Files:
    """Puts the maps together, a row for each file."""

    def __init__(self, renderer: Renderer, rows: int | None, program: Program) -> None:
        self._renderer, self._rows = renderer, rows
        # The program as it is written has \n for the end of a line, and the formats of the typed one have the end.
        told = {text.encode().decode("unicode_escape"): text for text in (USED, OPENED, COPIED, ENDED, ENDED_ALL)}
        self._told = {number: told[text] for number, text in enumerate(program.formats) if text in told}
        self._descriptors = Descriptors()
        self._maps: dict[str, MapSnapshot] = {}
        self._unnamed: set[Key] = set()

    def take(self, event: Event) -> Event | None:
        """Takes what the program tells of descriptors; returns what is for the renderer."""
        if isinstance(event, PrintfEvent):
            self._tell(event.format, event.args)
        elif isinstance(event, PrintfBatch):
            formats = event.format
            for number, row in enumerate(event.rows):
                self._tell(formats if isinstance(formats, int) else formats[number], row)
        else:
            return event
        return None

    def _tell(self, format: int, args: tuple[Any, ...]) -> None:
        told, names = self._told[format], self._descriptors
        if told == USED:
            names.used(*args)
        elif told == OPENED:
            names.opened(*args)
        elif told == COPIED:
            names.copied(*args)
        elif told == ENDED:
            names.closed(*args)
        else:
            names.all_closed(*args)

    def printed(self, snapshot: MapSnapshot) -> list[_File] | None:
        """Takes a map; the files, the one with most bytes first, where all maps are there."""
        self._maps[snapshot.decl.name] = snapshot
        if snapshot.decl.name != QUANTILES:
            return None
        files: dict[tuple[bytes, bytes], _File] = {}
        decl = snapshot.decl
        merge = AGGREGATIONS[decl.kind].merge
        others = self._renderer.text.key(decl.key[:-4]) if len(decl.key) > 4 else lambda key: b""

        def of(key: Key) -> _File:
            name, apart = self._name(key[-4:-1]), others(key[:-4])
            return files.setdefault((apart, name), _File(apart, name))

        for key, value in snapshot.items.items():
            file = of(key)
            parts = AGGREGATIONS[decl.kind].parts(decl, value, 1)
            file.calls[cast(int, key[-1])] += cast(dict[str, int], parts)["count"]
            file.times = dict(cast(dict[int, Any], value)) if file.times is None else merge(decl, file.times, value)
        for key, value in self._of(BYTES):
            of(key).bytes[key[-1]] += value
        for key, value in self._of(ERRORS):
            of(key).errors[key[-1]] += value
        self._descriptors.forget()
        listed = [file for file in files.values() if file.times is not None]
        listed.sort(key=lambda file: (-sum(file.bytes), -sum(file.calls), file.others, file.name))
        return listed[: self._rows]

    def _of(self, name: str) -> Iterable[tuple[Any, Any]]:
        snapshot = self._maps.get(name)
        if snapshot is None:
            return ()
        decl = snapshot.decl
        parts = AGGREGATIONS[decl.kind].parts
        return [(key, parts(decl, value, 1)) for key, value in snapshot.items.items()]

    def _name(self, key: Key) -> bytes:
        process, number, term = cast(tuple[int, int, int], key)
        name = self._descriptors.name(process, number, term)
        if name is None:
            self._unnamed.add(key)
            return b"fd %d (?)" % number
        return name

    def times(self, file: _File) -> Mapping[str, int]:
        """`p50`, `p99`, `max`, in nanoseconds."""
        decl = self._maps[QUANTILES].decl
        return cast(dict[str, int], AGGREGATIONS[decl.kind].parts(decl, file.times, 1))

    def unnamed(self) -> bytes:
        """What is to be said of descriptors without a name; nothing where there is none."""
        if not self._unnamed:
            return b""
        said, shown = ("descriptor was", "is") if len(self._unnamed) == 1 else ("descriptors were", "are")
        names = "" if OPENED in self._told.values() else "; --opened takes names from open(), through eBPF"
        why = f"{said} closed before the name was read, or never open, and {shown} shown as fd N (?)"
        told = f"tracer: {len(self._unnamed)} {why}{names}\n"
        self._unnamed.clear()
        return told.encode()


class _OfFiles(Renderer):
    """What both formats have: the files of the maps; of these `rows`, where that is not None."""

    def __init__(self, rows: int | None, program: Program, *rest: Any) -> None:
        super().__init__(program, *rest)
        self._files = _Files(self, rows, program)

    def event(self, event: Event, store: MapStore) -> None:
        """See `Renderer`."""
        if (shown := self._files.take(event)) is not None:
            super().event(shown, store)

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        """Nothing: the program prints its maps itself."""

    def print_map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        """One of the maps; the last shows the files."""
        files = self._files.printed(snapshot)
        if files is None:
            return
        self.write(self._shown(files))
        if said := self._files.unnamed():
            self._effects.say(said)

    @abstractmethod
    def _shown(self, files: Sequence[_File]) -> bytes:
        """The files, the one with most bytes first."""


class FileTable(_OfFiles, TextRenderer):
    """A row for each file."""

    def _shown(self, files: Sequence[_File]) -> bytes:
        lines = [_line(_HEADS, b"file")]
        for file in files:
            times = self._files.times(file)
            numbers = [b"%d" % number if number else b"" for number in (
                file.calls[0], file.bytes[0], file.calls[1], file.bytes[1],
            )]  # fmt: skip
            cells = (*numbers, *(duration(times[name]) for name in ("p50", "p99", "max")))
            shown = self.text.escape(file.name) if self.text.escape is not None else file.name
            apart = file.others + b", " if file.others else b""
            errors = [f"{error_name(number)} {count}" for number, count in _ordered(file)]
            lines.append(_line(cells, apart + shown + ("  " + ", ".join(errors) if errors else "").encode()))
        return b"\n".join(lines) + b"\n"


class FileJson(_OfFiles, JsonRenderer):
    """An object a print, with one for each file."""

    def _shown(self, files: Sequence[_File]) -> bytes:
        return b'{"type": "files", "data": [%b]}\n' % b", ".join([self._object(file) for file in files])

    def _object(self, file: _File) -> bytes:
        times = self._files.times(file)
        errors = [b'"%b": %d' % (error_name(number).encode(), count) for number, count in _ordered(file)]
        by = b'"by": %b, ' % json_string(file.others) if file.others else b""
        numbers = {
            "reads": file.calls[0], "read_bytes": file.bytes[0], "writes": file.calls[1],
            "written_bytes": file.bytes[1], "others": file.calls[2], "p50": times["p50"], "p99": times["p99"],
            "max": times["max"],
        }  # fmt: skip
        told = b", ".join([b'"%b": %d' % (name.encode(), number) for name, number in numbers.items()])
        return b'{%b"file": %b, %b, "errors": {%b}}' % (by, json_string(file.name), told, b", ".join(errors))


def _ordered(file: _File) -> list[tuple[int, int]]:
    """The errors, the most frequent first."""
    return sorted(file.errors.items(), key=lambda item: (-item[1], item[0]))


def _line(cells: Iterable[bytes], last: bytes) -> bytes:
    return b"".join([cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)]) + b"  " + last
