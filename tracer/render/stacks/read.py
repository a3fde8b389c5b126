"""Profiles from files: folded stacks of any tool, and what `-f json` printed, of tracer or bpftrace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tracer.errors import TracerError
from tracer.render.stacks.profiles import Frame, Kind, Profile, Sample, kind_of

_LINE = re.compile(r"(.*\S)\s+([0-9]{1,20})(?:\.[0-9]*)?\s*")
_PLACE = re.compile(r"\[(.+)\+0x[0-9a-f]+\]")
_MARKS: dict[str, Kind] = {"_[k]": "kernel", "_[j]": "jit"}
"""How the converters of the flame graph tools mark frames."""

_FRAME = re.compile(r" {8}(?P<name>.*)|\t[0-9a-f]+ (?P<named>.*) \((?P<path>.*)\)|(?P<raw>[0-9a-f]+(?: 0x[0-9a-f]+)?)")
_OFFSET = re.compile(r"\+\d+(?:@.*)?\Z")
"""What stands behind a name: the distance from its start, and where it is asked for the line of the source."""
_INLINED = "[inlined] "
_NO_STACK = Frame("[no stack]")


def read(raw: bytes, name: str) -> list[Profile]:
    """The maps of stacks in a file, or the file itself as one. Raises `TracerError` where there are none."""
    text = raw.decode("utf-8", "surrogateescape")
    profiles = list(_of_json(text)) if text.lstrip()[:1] == "{" else list(_of_lines(text, name))
    if not profiles:
        raise TracerError(
            f"{name}: no stacks", "it reads what --stacks folded or -f json prints of a map like @[ustack] = count();"
        )
    return profiles


def _of_lines(text: str, name: str) -> Iterator[Profile]:
    samples = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise TracerError(f"{name}: line {number} is not one of folded stacks: it ends with no count")
        frames = tuple(_marked(name) for name in parts[1].split(";"))
        samples.append(Sample((), frames, int(parts[2])))
    maps = {sample.frames[0].name for sample in samples}
    if not all(map.startswith("@") for map in maps):
        yield Profile(name, "count", samples)
        return
    for map in sorted(maps):
        of_map = [sample for sample in samples if sample.frames[0].name == map]
        yield Profile(map, "count", [sample._replace(frames=sample.frames[1:]) for sample in of_map])


def _marked(name: str) -> Frame:
    for mark, kind in _MARKS.items():
        if name.endswith(mark):
            return Frame(name.removesuffix(mark), kind)
    place = _PLACE.fullmatch(name)
    return Frame(name, kind_of(name, None if place is None else f"/{place[1]}"))


def _of_json(text: str) -> Iterator[Profile]:
    """Other lines are output of the traced program in between."""
    seen: dict[str, int] = {}
    for line in text.split("\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # a number of thousands of digits is a plain ValueError
            continue
        data = record.get("data") if isinstance(record, dict) and record.get("type") == "map" else None
        for name, entries in data.items() if isinstance(data, dict) else ():
            samples = list(_samples(entries)) if isinstance(entries, dict) else []
            if samples:
                seen[name] = seen.get(name, 0) + 1
                shown = name if seen[name] == 1 else f"{name} ({seen[name]})"
                yield Profile(shown, "value", samples)


def _samples(entries: Mapping[str, Any]) -> Iterator[Sample]:
    for key, value in entries.items():
        if isinstance(value, str) and "\n" in value:
            yield Sample((key,), _stack(value)[1] or (_NO_STACK,), 1)
        elif "\n" in key and (number := _integer(value)) is not None:
            labels, frames = _stack(key)
            yield Sample(labels, frames or (_NO_STACK,), number)


def _integer(value: object) -> int | None:
    """JSON has large numbers as text."""
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value) else None


def _stack(text: str) -> tuple[tuple[str, ...], tuple[Frame, ...]]:
    """The parts of a key that are no stack, and its frames, which it has innermost first."""
    labels: list[str] = []
    frames: list[Frame] = []
    begun = 0
    for line in text.split("\n"):
        frame = _FRAME.fullmatch(line)
        if frame is None:
            begun = len(frames)
            labels += [part for part in line.split(",") if part]
        else:
            name = next(filter(None, (frame["name"], frame["named"], frame["raw"])), "")
            path = frame["path"] if frame["path"] not in ("[unknown]", "inlined") else None
            if name.startswith(_INLINED):
                name = name.removeprefix(_INLINED)
                name = name.rpartition("@")[0] or name
            frames.insert(begun, Frame(_OFFSET.sub("", name), kind_of(name, path), path or ""))
    return tuple(labels), tuple(frames)
