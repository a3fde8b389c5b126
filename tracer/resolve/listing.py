"""The output of `tracer list`: the probes of files, found in their notes and symbol tables, nothing attached or
checked.

A pattern is an attach point whose parts may be left out at the end: `usdt:PATH`, `usdt:PATH:PROVIDER:NAME`,
`usdt:PATH:NAME`, `uprobe:PATH:FUNCTION`, `*:PATH:NAME` or `PATH` alone for both kinds; with a process also `*`, or
nothing, for all files it has mapped. `interval:*` needs no file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from tracer.dataclass import NamedTuple, dataclass
from tracer.errors import NOWHERE, Fault, NothingThere, TracerError, fail_alike, printable
from tracer.host.maps import within
from tracer.kinds.model import AttachKind, AttachPoint, Machine, ProbeKind
from tracer.kinds.registry import KINDS, SPELLINGS, kind_of
from tracer.kinds.site import ArgSpec, FileSite, Site, TailPlace, Target, Unreadable
from tracer.lang.syntax.attach import read, refusal, scan
from tracer.resolve.attach_texts import as_written, in_quotes, quoted
from tracer.resolve.binary import Binaries, Binary
from tracer.resolve.elf.structures import PF_X
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.files.paths import Found, files_below, find_files, is_directory, matcher
from tracer.resolve.functions.lookup import find_functions, is_demangled, not_found, written_names
from tracer.resolve.usdt.notes import UsdtNote

_Made = TypeVar("_Made")

_LISTED = tuple(kind.name for kind in KINDS.values() if "arguments" in kind.reads and not kind.pairs)
"""The kinds that are listed by default: functions once, by their entries."""

_WITH_PROVIDER = tuple(kind.name for kind in KINDS.values() if kind.has_notes)
"""The kinds that `*:PATH:PROVIDER:NAME` can be."""

# A number would be an address, and `+8` at the end an offset.
_PLAIN = re.compile(r"[A-Za-z_][\w.]*")
_AT_LINE = re.compile(r"([^:,]+):[^:,]*[./][^:,]*:\d+(?:[:-]\d+)?")  # as debuggers have it, without the kind of probe


class ListedSite(NamedTuple):
    """A place of a probe: its address, its file offset (None where the file holds nothing there), the semaphore's
    address.
    """

    address: int
    offset: int | None
    semaphore: int | None = None
    args: tuple[ArgSpec, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The site as an object in that of the probe."""
        numbers = {"address": self.address, "offset": self.offset, "semaphore": self.semaphore}
        return {name: None if value is None else f"{value:#x}" for name, value in numbers.items()} | {
            "args": [
                {"text": arg.text, "size": arg.size, "signed": arg.signed, "float": arg.is_float,
                 "readable": not isinstance(arg.operand, Unreadable)}
                for arg in self.args
            ]
        }  # fmt: skip


class Listed(NamedTuple):
    """A probe of a list. `probe` is an attach point that can be used as it stands; `provider` is None for functions."""

    probe: str
    kind: str
    path: str
    provider: str | None
    name: str
    sites: tuple[ListedSite, ...]
    fields: tuple[str, ...] = ()
    """The fields of an event, as C declares them."""

    def as_json(self) -> dict[str, Any]:
        """The object of `tracer list --json`, numbers in hexadecimal as text."""
        as_object = {**self._asdict(), "path": in_quotes(self.path), "sites": [site.as_json() for site in self.sites]}
        del as_object["sites" if self.fields else "fields"]
        return as_object


@dataclass(frozen=True, slots=True)
class _Pattern:
    kinds: tuple[AttachKind, ...]
    path: str | None
    provider: str = "*"
    name: str = "*"
    cpp: bool = False


def list_probes(
    pattern: str | None, target: Target, left_out: list[str] | None = None,
    machine: Callable[[], Machine] | None = None,
) -> Iterator[Listed]:
    """The probes that match, USDT before functions, each file by itself, in order of name. Raises `TracerError`.

    `left_out` gets a line about what matches and cannot be attached. `machine` makes what knows the kernel's events.
    """

    def of_kind(kind: AttachKind, wanted: _Pattern, binary: Binary) -> Iterator[Listed]:
        if KINDS[kind].has_notes:
            return _usdt(wanted, binary, True)
        return _functions(wanted, binary, target, left_out)

    for part in _meant(pattern, target, machine):
        yield from (Listed(unit, kind.name, "", None, unit, ()) for kind, unit in _units(part))
        if (events := _events(part, machine)) is not None:
            yield from events
        elif (point := _place(part, target)) is not None:
            from tracer.resolve.sites.expand import sites_at

            yield from of_sites(sites_at(point, target, left_out if left_out is not None else []), (point,))
        elif not _units(part):
            yield from _in_files(part, target, of_kind)


def list_lines(
    pattern: str | None, target: Target, left_out: list[str] | None = None,
    machine: Callable[[], Machine] | None = None,
) -> Iterator[str]:
    """The attach points of `list_probes`, a line each, many lines at a time. Raises `TracerError`."""

    def of_kind(kind: AttachKind, wanted: _Pattern, binary: Binary) -> Iterator[str]:
        if KINDS[kind].has_notes:
            return (f"{listed.probe}\n" for listed in _usdt(wanted, binary, False))
        return _function_lines(wanted, binary, target, left_out)

    for part in _meant(pattern, target, machine):
        word = (part or "").partition(":")[0]
        by_machine = word in SPELLINGS and SPELLINGS[word].machine is not None
        if by_machine or _place(part, target) is not None or _units(part):
            yield from (f"{listed.probe}\n" for listed in list_probes(part, target, left_out, machine))
        else:
            yield from _in_files(part, target, of_kind)


def _place(pattern: str | None, target: Target) -> AttachPoint | None:
    """An attach point of more than names: an address, an instruction, a line, functions of a source file; else None."""
    try:
        point, end = read(pattern or "", 0)
        if point.apart is not None:
            from tracer.resolve.sites.expand import as_meant

            point = as_meant(point, target)
    except (Fault, TracerError):
        return None
    placed = point.is_placed or point.offset
    return point if placed and end == len(pattern or "") else None


def of_sites(sites: Iterable[FileSite], points: Sequence[AttachPoint]) -> list[Listed]:
    """The probes that have these sites of a clause with these attach points, in order of name."""
    named: dict[str, list[FileSite]] = {}
    for site in sites:
        named.setdefault(as_written(site, points[site.point]), []).append(site)
    listed = []
    for text, probe_sites in sorted(named.items()):
        fields, first, kind = _fields(text), probe_sites[0], kind_of(probe_sites[0])
        provider = fields[-2] if kind.has_notes else None
        places = [
            ListedSite(site.address, site.offset, site.semaphore_address, site.args if kind.has_notes else ())
            for site in probe_sites if site.tail & 0xFF <= TailPlace.END
        ]  # fmt: skip
        listed.append(Listed(text, kind.name, first.path, provider, fields[-1], tuple(places)))
    return listed


def _meant(pattern: str | None, target: Target, machine: Callable[[], Machine] | None) -> Iterable[str | None]:
    if machine is None or not {*"*?["} & {*(pattern or "*").partition(":")[0]}:
        return _patterns(pattern)
    from tracer.resolve.kernel_patterns import meant

    return meant(_patterns(pattern), target, machine)


def _patterns(text: str | None) -> list[str | None]:
    """Several patterns with commas between them; a comma is one of a name where no kind of probe stands behind it."""
    if text is None:
        return [None]
    if (at_line := _AT_LINE.fullmatch(text)) is not None and at_line[1] not in (*SPELLINGS, "*", "build-id"):
        return [f"uprobe:{text}"]
    parts, start = list[str | None](), 0
    for comma in re.finditer(r",\s*(?=(\w+|\*):)", text):
        if comma[1] not in (*SPELLINGS, "*"):
            continue
        try:
            ends = scan(text, start)[1] == comma.start()
        except Fault:
            continue
        if ends:
            parts.append(text[start : comma.start()])
            start = comma.end()
    return [*parts, text[start:]]


def _units(pattern: str | None) -> list[tuple[ProbeKind, str]]:
    """The beginnings of attach points that need no file, as bpftrace lists them: `interval:hz:`."""
    word, colon, rest = (pattern or "").partition(":")
    kind = SPELLINGS.get(word)
    if not colon or kind is None or not kind.units:
        return []
    matches = matcher(rest.partition(":")[0] or "*")
    units = [unit for unit in kind.units() if matches(unit.partition(":")[0])]
    beginnings = [(kind, f"{kind.name}:{unit}" + ":" * (":" not in unit)) for unit in units]
    if not beginnings:
        raise TracerError(f"no probe matches '{printable(pattern or '')}'", f"{word}:* lists the units")
    return beginnings


def _events(pattern: str | None, machine: Callable[[], Machine] | None) -> list[Listed] | None:
    """The events of `tracepoint:SYSTEM:NAME`, whose parts may be left out; None where another kind is named."""
    word, *parts = (pattern or "").split(":")
    kind = SPELLINGS.get(word)
    if kind is None or kind.machine is None or machine is None:
        return None
    if len(parts) > 2:
        raise TracerError(f"'{printable(pattern or '')}': too many parts", kind.form)
    system, name = (part or "*" for part in (*parts, "*", "*")[:2])
    return of_events(kind.machine(AttachPoint(kind.name, pattern or "", NOWHERE, None, system, name), machine()))


def of_events(sites: Iterable[Site]) -> list[Listed]:
    """The events that have these sites."""
    events = []
    for site in sites:
        _, system, name = site.probe.split(":")
        events.append(Listed(site.probe, kind_of(site).name, "", system, name, (), site.declarations))
    return events


def _in_files(
    pattern: str | None, target: Target, of_kind: Callable[[AttachKind, _Pattern, Binary], Iterator[_Made]]
) -> Iterator[_Made]:
    wanted = _parse(pattern)
    files = _files(wanted, target)
    failures: list[TracerError] = []
    seen: set[int] = set()
    some = False
    with closing(Binaries()) as binaries:
        for kind in wanted.kinds:
            seen.clear()
            for file in files:
                try:
                    binary = binaries.open(file.path, file.shown)
                    if id(binary) in seen:
                        continue
                    seen.add(id(binary))
                    listed = of_kind(kind, wanted, binary)
                except TracerError as error:
                    if file.sure and not isinstance(error, NothingThere):
                        raise
                    failures.append(error)
                    continue
                some = True
                yield from listed
    if not some:
        alike = len(files) == 1 or fail_alike(failures, len(files) * len(wanted.kinds))
        raise failures[0] if failures and alike else TracerError(f"no probe matches '{pattern or '*'}'")


def _files(wanted: _Pattern, target: Target) -> tuple[Found, ...]:
    """The files of an attach point's path; of a directory, where a plain name is none, those below it. Of * without a
    process, where a function is named, all that processes run.
    """
    path = wanted.path
    is_of_all = not target.pids and target.program is None
    if path == "*" and is_of_all and (wanted.name != "*" or wanted.kinds == _WITH_PROVIDER):
        from tracer.resolve.files.build_ids import running_files

        return tuple(Found(running, running, sure=False) for running in sorted(running_files(target)))
    if path is not None and ("/" in path or path in (".", "..")):
        roots = {picture.root for picture in target.pictures} or {""}
        if any(is_directory(within(prefix, os.path.abspath(path))) for prefix in roots):
            return files_below(path, target)
    return find_files(path, target)


def _parse(pattern: str | None) -> _Pattern:
    text = pattern or "*"
    kind, colon, rest = text.partition(":")
    fields = _fields(text)
    path = (fields[0] if fields else "") or None
    named = SPELLINGS.get(kind)
    if named is not None and named.pattern is not None and (colon or len(kind) > 2):
        try:
            provider, name, cpp = named.pattern(fields[1:])
        except ValueError as error:
            hint = "usdt:PATH:PROVIDER:NAME"
            raise TracerError(f"'{printable(text)}': {error}", hint) from None
        return _Pattern((named.name,), path, provider or "*", name or "*", cpp)
    if text == "*":
        return _Pattern(_LISTED, None)
    if kind == "*" and 2 <= len(fields) <= 3:
        provider = fields[1] if len(fields) == 3 else "*"
        return _Pattern(_LISTED if len(fields) == 2 else _WITH_PROVIDER, path, provider or "*", fields[-1] or "*")
    if kind == "build-id":
        return _Pattern(_LISTED, text)
    if colon and not rest.startswith("/") and "/" not in kind:
        if (refused := refusal(kind)) is not None:
            raise TracerError(*refused)
        raise TracerError(
            f"'{printable(kind)}' is no kind of probe that can be listed", "list usdt:PATH or uprobe:PATH"
        )
    return _Pattern(_LISTED, text)


def _fields(text: str) -> list[str]:
    """The parts after the kind; quoted as in a program, or plain."""
    try:
        parts, end = scan(text, 0)
    except Fault:
        end = -1
    if end == len(text):
        return [part.text for part in parts[1:]]
    return text.split(":")[1:]


def _usdt(wanted: _Pattern, binary: Binary, arguments: bool) -> Iterator[Listed]:
    provider, name = matcher(wanted.provider), matcher(wanted.name)
    by_name: dict[tuple[str, str], list[UsdtNote]] = {}
    for note in binary.usdt:
        if not (_can_be_written(note.provider) and _can_be_written(note.name)):
            continue
        if provider(note.provider) and name(note.name) and not binary.was_dropped(note):
            by_name.setdefault((note.provider, note.name), []).append(note)
    if not by_name:
        what = binary.no_usdt if not binary.usdt else f"no USDT probe matches '{wanted.name}'"
        raise NothingThere(f"{printable(binary.shown)}: {what}")

    def site(note: UsdtNote) -> ListedSite:
        args = binary.arguments(note) if arguments else ()
        return ListedSite(note.address, binary.elf.offset_of(note.address), note.semaphore or None, args)

    before = f"usdt:{quoted(binary.named, path=True)}"
    return (
        Listed(f"{before}:{quoted(key[0])}:{quoted(key[1])}", "usdt", binary.path, *key, tuple(map(site, by_name[key])))
        for key in sorted(by_name)
    )


def _functions(wanted: _Pattern, binary: Binary, target: Target, left_out: list[str] | None) -> Iterator[Listed]:
    functions = _matching(wanted, binary, target, left_out)
    return _in_order_of_name(functions, wanted.kinds[-1], binary, _written(wanted, binary))


def _written(wanted: _Pattern, binary: Binary) -> Mapping[str, str]:
    """The names by which functions of C++ and Rust are listed for who writes names as people do: so too. Others get the
    linker's, as from bpftrace.
    """
    return written_names(binary) if wanted.cpp or is_demangled(wanted.name) else {}


def _function_lines(wanted: _Pattern, binary: Binary, target: Target, left_out: list[str] | None) -> Iterator[str]:
    """Written for 60,000 functions: their names are looked at all at once, and singly only where one is unusual."""
    names = sorted({function[0] for function in _matching(wanted, binary, target, left_out)})
    if written := _written(wanted, binary):
        names = [written.get(name, name) for name in names]
    # In this order a digit or a dot at the beginning of a name would come first.
    if names[0][0] < "A" or not "".join(names).replace(".", "").isidentifier():
        plain = _PLAIN.fullmatch
        names = [name if plain(name) else quoted(name) for name in names if _can_be_written(name)]
    before = f"{wanted.kinds[-1]}:{quoted(binary.named, path=True)}:"
    return iter(["".join([f"{before}{name}\n" for name in names])])


def _matching(wanted: _Pattern, binary: Binary, target: Target, left_out: list[str] | None) -> tuple[Function, ...]:
    functions = find_functions(binary, wanted.name, wanted.kinds[-1], wanted.cpp, target.pictures, left_out)
    if not functions:
        raise not_found(binary, wanted.name)
    return functions


def _in_order_of_name(
    functions: tuple[Function, ...], kind: str, binary: Binary, written: Mapping[str, str]
) -> Iterator[Listed]:
    """Yields the functions in order of name. Most have a name of their own and lie in one segment."""
    offset_of = binary.elf.offset_of
    segment = next((load for load in binary.elf.loads if load.flags & PF_X), None)
    start, end = (segment.address, segment.address + segment.file_size) if segment is not None else (0, 0)
    moved = segment.offset - segment.address if segment is not None else 0
    before, path = f"{kind}:{quoted(binary.named, path=True)}:", binary.path
    sites: tuple[ListedSite, ...] = ()
    ordered, plain = sorted(functions), _PLAIN.fullmatch
    for index, (name, address, *_) in enumerate(ordered, 1):
        sites += (ListedSite(address, address + moved if start <= address < end else offset_of(address)),)
        if index < len(ordered) and ordered[index][0] == name:
            continue
        if _can_be_written(name):
            text = written.get(name, name)
            yield Listed(before + (text if plain(text) else quoted(text)), kind, path, None, name, sites)
        sites = ()


def _can_be_written(name: str) -> bool:
    """Whether it fits into a line and can be an attach point's part: * alone would mean any."""
    return name.isprintable() and name not in ("", "*")
