"""Names and sites → attach points as text that can be written again: what has to be stands in quotes."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from tracer.kinds.model import AttachPoint
from tracer.kinds.registry import kind_of
from tracer.kinds.site import FileSite

_NUMBER_OR_OFFSET = re.compile(r"^(0[xX][0-9a-fA-F]+|\d+)$|\+\w+$")


def quoted(part: str, path: bool = False) -> str:
    """A part of an attach point as it must be written so that it means itself."""
    if (
        re.fullmatch(r"[\w./@~!^&=<>()%|;+\-]+", part)
        and (path or (not _NUMBER_OR_OFFSET.search(part) and "/" not in part and "+" not in part))
    ):
        return part
    return '"' + in_quotes(part).replace('"', '\\"') + '"'


def as_written(site: FileSite, point: AttachPoint) -> str:
    """The probe of a site in a form that can be written again: a file or a name stands in quotes where it has to."""
    kind, _, rest = site.probe.partition(":")
    ends = [position for position, character in enumerate(rest) if character == ":"]
    end = next((position for position in ends if _is_file(rest[:position], site.path)), None)
    if end is None:
        return site.probe  # the file has gone, or is that of a process
    path, name, offset = rest[:end], rest[end + 1 :], f"+{point.offset}" if point.offset else ""
    if kind_of(site).has_notes:
        given = f"{point.provider}:"
        provider = given[:-1] if name.startswith(given) else name.partition(":")[0]
        name = f"{quoted(provider)}:{quoted(name[len(provider) + 1 :])}"
    elif not point.is_placed:
        before = "cpp:" if point.cpp else ""
        name = before + quoted(name.removeprefix(before).removesuffix(offset)) + offset
    return f"{kind}:{quoted(path, path=True)}:{name}"


@lru_cache(maxsize=64)
def _is_file(name: str, path: str) -> bool:
    try:
        return os.path.samefile(name, path)
    except (OSError, ValueError):
        return False


def in_quotes(part: str) -> str:
    """A part as it stands in an attach point's quotes, but for those themselves: a backslash is doubled, and what is no
    printable text is written as its bytes, which only a path has. The parser of attach points reads it back.
    """
    part = part.replace("\\", "\\\\")
    if part.isprintable():
        return part
    return "".join(character if character.isprintable() else _bytes(character) for character in part)


def _bytes(character: str) -> str:
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    return named or "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
