"""What `tracer list` shows: the probes of files, found in their notes and symbol tables, nothing attached or checked.

A pattern is an attach point whose parts may be left out at the end: `usdt:PATH`, `usdt:PATH:PROVIDER:NAME`,
`usdt:PATH:NAME`, `uprobe:PATH:FUNCTION`, `PATH` alone for both kinds; with a process also `*`, or nothing, for all
files it has mapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tracer.errors import TracerError
from tracer.lang.attach import scan
from tracer.lang.lexer import Fault
from tracer.resolve.binary import Binaries, Binary
from tracer.resolve.elf import printable
from tracer.resolve.files import Found, find_files
from tracer.resolve.functions import NothingThere, find_functions, matcher, not_found
from tracer.resolve.model import ArgSpec, Target, Unreadable
from tracer.resolve.usdt import UsdtNote

# A number would be an address, and `+8` at the end an offset.
_MISREAD = re.compile(r"^(0[xX][0-9a-fA-F]+|\d+)$|\+\w+$")


@dataclass(frozen=True, slots=True)
class ListedSite:
    """One place: its address, its file offset (None where the file holds nothing there), the semaphore's address."""

    address: int
    offset: int | None
    semaphore: int | None = None
    args: tuple[ArgSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """One probe. `probe` is an attach point that can be used as it stands; `provider` is None for functions."""

    probe: str
    kind: str
    path: str
    provider: str | None
    name: str
    sites: tuple[ListedSite, ...]

    def as_json(self) -> dict[str, Any]:
        """The object of `tracer list --json`, numbers in hexadecimal as text."""
        return {
            "probe": self.probe,
            "kind": self.kind,
            "path": self.path,
            "provider": self.provider,
            "name": self.name,
            "sites": [
                {
                    "address": f"{site.address:#x}",
                    "offset": None if site.offset is None else f"{site.offset:#x}",
                    "semaphore": None if site.semaphore is None else f"{site.semaphore:#x}",
                    "args": [
                        {
                            "text": arg.text,
                            "size": arg.size,
                            "signed": arg.signed,
                            "readable": not isinstance(arg.operand, Unreadable),
                        }
                        for arg in site.args
                    ],
                }
                for site in self.sites
            ],
        }


@dataclass(frozen=True, slots=True)
class _Pattern:
    kinds: tuple[str, ...]
    path: str | None
    provider: str
    usdt: str
    function: str


def list_probes(pattern: str | None, target: Target, arguments: bool = True) -> Iterator[Listed]:
    """The probes that match, USDT before functions, each file by itself, in order of name. Raises `TracerError`.

    Without `arguments` their places are left out, which is faster; the sites are there all the same.
    """
    wanted = _parse(pattern)
    found = find_files(wanted.path, target)
    failures: list[TracerError] = []
    seen: set[int] = set()
    some = False
    with Binaries() as binaries:
        for kind in wanted.kinds:
            seen.clear()
            for file in found:
                try:
                    binary = _open(file, binaries)
                    if id(binary) in seen:
                        continue
                    seen.add(id(binary))
                    listed = _usdt(wanted, binary, arguments) if kind == "usdt" else _functions(wanted, binary)
                except TracerError as error:
                    if file.sure and not isinstance(error, NothingThere):
                        raise
                    failures.append(error)
                    continue
                some |= bool(listed)
                yield from listed
    if not some:
        raise failures[0] if len(found) == 1 and failures else TracerError(f"no probe matches '{pattern or '*'}'")


def _parse(pattern: str | None) -> _Pattern:
    text = pattern or "*"
    kind, colon, rest = text.partition(":")
    fields = _fields(text)
    path = (fields[0] if fields else "") or None
    if kind in ("usdt", "U") and (colon or kind == "usdt"):
        if len(fields) > 3:
            hint = "usdt:PATH:PROVIDER:NAME"
            raise TracerError(f"'{printable(text)}': usdt takes a path, a provider and a name", hint)
        provider = fields[1] if len(fields) == 3 else "*"
        name = fields[-1] if len(fields) > 1 else "*"
        return _Pattern(("usdt",), path, provider or "*", name or "*", "*")
    if kind in ("uprobe", "uretprobe", "u", "ur") and (colon or len(kind) > 2):
        kind = "uretprobe" if kind in ("uretprobe", "ur") else "uprobe"
        return _Pattern((kind,), path, "*", "*", ":".join(fields[1:]) or "*")
    if text == "*":
        return _Pattern(("usdt", "uprobe"), None, "*", "*", "*")
    if colon and not rest.startswith("/") and "/" not in kind:
        raise TracerError(
            f"'{printable(kind)}' is no kind of probe that can be listed", "list usdt:PATH or uprobe:PATH"
        )
    return _Pattern(("usdt", "uprobe"), text, "*", "*", "*")


def _fields(text: str) -> list[str]:
    """The parts after the kind; quoted as in a program, or plain."""
    try:
        parts, end = scan(text, 0)
    except Fault:
        end = -1
    if end == len(text):
        return [part.text for part in parts[1:]]
    return text.split(":")[1:]


def _open(file: Found, binaries: Binaries) -> Binary:
    return binaries.open(file.path, file.shown)


def _usdt(wanted: _Pattern, binary: Binary, arguments: bool) -> list[Listed]:
    provider, name = matcher(wanted.provider), matcher(wanted.usdt)
    by_name: dict[tuple[str, str], list[UsdtNote]] = {}
    for note in binary.usdt:
        if provider(note.provider) and name(note.name) and (note.provider + note.name).isprintable():
            by_name.setdefault((note.provider, note.name), []).append(note)
    if not by_name:
        what = "the file has no USDT probes" if not binary.usdt else f"no USDT probe matches '{wanted.usdt}'"
        raise NothingThere(f"{printable(binary.shown)}: {what}")
    return [
        Listed(
            probe=f"usdt:{quoted(binary.shown)}:{quoted(key[0])}:{quoted(key[1])}",
            kind="usdt",
            path=binary.path,
            provider=key[0],
            name=key[1],
            sites=tuple(
                ListedSite(
                    note.address,
                    binary.elf.offset_of(note.address),
                    note.semaphore or None,
                    binary.arguments(note) if arguments else (),
                )
                for note in by_name[key]
            ),
        )
        for key in sorted(by_name)
    ]


def _functions(wanted: _Pattern, binary: Binary) -> list[Listed]:
    kind, shown, path = wanted.kinds[-1], quoted(binary.shown), binary.path
    offset_of = binary.elf.offset_of
    by_name: dict[str, list[ListedSite]] = {}
    for each in find_functions(binary, wanted.function, kind):
        by_name.setdefault(each.name, []).append(ListedSite(each.address, offset_of(each.address)))
    if not by_name:
        raise not_found(binary, wanted.function)
    return [
        Listed(f"{kind}:{shown}:{quoted(name)}", kind, path, None, name, tuple(by_name[name]))
        for name in sorted(by_name)
        if name.isprintable()
    ]


def quoted(part: str) -> str:
    """A part of an attach point as it must be written so that it means itself."""
    if (
        re.fullmatch(r"[\w./@~!^&=<>()%|;\-]+", part)
        and not _MISREAD.search(part)
        and (part[0] == "/" or "/" not in part)
    ):
        return part
    return '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
