"""Attach points: `usdt:/bin/app:prov:name`, `uprobe:libc:malloc+8`, `uprobe:/bin/app:shop.c:36`, `interval:s:1`.

They are read from the bare text, since a path holds what would be operators elsewhere. An attach point is a list of
parts between colons and ends at a blank, a comma, `{`, or a `/` after the path, which opens the predicate. Quotes make
all of these ordinary: `uprobe:/bin/app:"ns::f(int, char*)"`. `$1` stands for the program's first argument.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tracer.errors import Diagnostic, Span
from tracer.lang import suggest, unsupported
from tracer.lang.syntax.ast import AttachKind, AttachPoint
from tracer.lang.syntax.lexer import DURATIONS_NS, Fault
from tracer.regex import regex

KINDS: dict[str, AttachKind] = {
    "usdt": "usdt",
    "U": "usdt",
    "uprobe": "uprobe",
    "u": "uprobe",
    "uretprobe": "uretprobe",
    "ur": "uretprobe",
    "interval": "interval",
    "i": "interval",
    "BEGIN": "begin",
    "begin": "begin",
    "END": "end",
    "end": "end",
}
"""Every spelling of a probe type."""

FORMS: dict[AttachKind, str] = {
    "usdt": "usdt:FILE:PROVIDER:NAME, usdt:FILE:NAME or, with -p or -c, usdt::PROVIDER:NAME",
    "uprobe": "uprobe:FILE:FUNCTION, uprobe:FILE:FUNCTION+OFFSET, uprobe:FILE:0xADDRESS or uprobe:FILE:SOURCE:LINE",
    "uretprobe": "uretprobe:FILE:FUNCTION",
    "interval": "interval:s:1, interval:ms:100, interval:us:500, interval:hz:10 or interval:1s",
    "begin": "BEGIN",
    "end": "END",
}
"""How each probe type is written, for hints and for the documentation."""

SHORTEST_PERIOD_NS = 1_000
LONGEST_PERIOD_NS = 1 << 62

_UNITS_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1, "m": DURATIONS_NS["m"], "h": DURATIONS_NS["h"]}
_NUMBER = regex(r"0[xX][0-9a-fA-F]+|[0-9]+")
_OFFSET = regex(r"\+(0[xX][0-9a-fA-F]+|[0-9]+)$")
_DURATION = regex(r"([0-9]+)(ns|us|ms|[smhd])")
_LINE = regex(r"[0-9]{1,9}")
# Slashes in the name of a source file: what follows up to the line's number, which no predicate looks like.
_SOURCE_PATH = regex(r"/[\w.+\-/~@%]*:[0-9]+(:[0-9]+)?(?=[\s,{/]|$)")
_PARAM = regex(r"\$([0-9]{1,6})")


class Part(NamedTuple):
    """What stands between two colons; `bare` is what follows its last quoted piece (all of it without quotes)."""

    text: str
    bare: str
    span: Span


def scan(text: str, start: int, params: Sequence[str] = ()) -> tuple[list[Part], int]:
    """The parts of the attach point at `start`, and the offset after it. Raises `Fault`."""
    parts: list[Part] = []
    at = part_start = start
    whole, bare = "", ""
    while at < len(text):
        char = text[at]
        if char == '"':
            end = at + 1
            while end < len(text) and text[end] not in '"\n':
                end += 2 if text[end] == "\\" and text[end + 1 : end + 2] in ('"', "\\") else 1
            if end >= len(text) or text[end] != '"':
                raise Fault(Diagnostic("the quotes in the attach point are not closed", Span(at, min(end, len(text)))))
            whole += re.sub(r'\\(["\\])', r"\1", text[at + 1 : end])
            bare = ""
            at = end + 1
            continue
        if char == ":":
            parts.append(Part(whole, bare, Span(part_start, at)))
            whole, bare, part_start = "", "", at + 1
        elif char == "/" and len(parts) == 2 and _is_uprobe(parts[0].text) and (found := _SOURCE_PATH.match(text, at)):
            piece = found.group().partition(":")[0]
            whole += piece
            bare += piece
            at += len(piece)
            continue
        elif char in " \t\r\n\f\v,{" or (char == "/" and not (len(parts) == 1 and _takes_path(parts[0].text))):
            break
        elif found := _PARAM.match(text, at):
            index = int(found[1])
            piece = params[index - 1] if 0 < index <= len(params) else ""
            whole += piece
            bare += piece
            at = found.end()
            continue
        else:
            whole += char
            bare += char
        at += 1
    parts.append(Part(whole, bare, Span(part_start, at)))
    return parts, at


def _takes_path(kind: str) -> bool:
    """Whether the part after the probe type may hold slashes: all but the types without a file."""
    return KINDS.get(kind, "usdt") in ("usdt", "uprobe", "uretprobe")


def _is_uprobe(kind: str) -> bool:
    return KINDS.get(kind) in ("uprobe", "uretprobe")


def read(text: str, start: int, params: Sequence[str] = ()) -> tuple[AttachPoint, int]:
    """The attach point at `start` of `text`, and the offset after it. Raises `Fault`."""
    parts, end = scan(text, start, params)
    return build(text[start:end], parts, Span(start, end)), end


def build(text: str, parts: list[Part], span: Span) -> AttachPoint:
    """An attach point from its parts. Raises `Fault`."""
    word = parts[0].text
    kind = KINDS.get(word)
    if kind is None:
        raise Fault(_unknown_kind(word, parts, span))
    if kind == "begin" or kind == "end":
        if len(parts) > 1:
            raise Fault(Diagnostic(f"{word} takes nothing after it", span, f"write {word} {{ … }}"))
        return AttachPoint(kind, text, span)
    if kind == "interval":
        return AttachPoint(kind, text, span, period_ns=_period(parts, span))
    if kind == "usdt":
        return _usdt(text, parts, span)
    return _uprobe(kind, text, parts, span)


def _unknown_kind(word: str, parts: list[Part], span: Span) -> Diagnostic:
    if word in unsupported.PROBES:
        reason, remedy = unsupported.PROBES[word]
        name = unsupported.SHORT_PROBES.get(word, word)
        return Diagnostic(f"{name} probes are not supported: {reason}", span, remedy)
    if not word:
        return Diagnostic("the attach point has no probe type", span, "it starts with usdt:, uprobe:, BEGIN, …")
    known = [name for name in KINDS if len(name) > 2]
    return Diagnostic(
        f"unknown probe type '{word}'",
        parts[0].span,
        suggest.hint(word, known, "known are usdt, uprobe, uretprobe, interval, BEGIN and END"),
    )


def _malformed(kind: AttachKind, span: Span, message: str) -> Fault:
    return Fault(Diagnostic(message, span, f"write {FORMS[kind]}"))


def _usdt(text: str, parts: list[Part], span: Span) -> AttachPoint:
    fields = [part.text for part in parts[1:]]
    if len(fields) not in (2, 3):
        raise _malformed("usdt", span, _miscount("usdt", fields, "a file and a probe's name"))
    path, provider, name = (fields[0], None, fields[1]) if len(fields) == 2 else fields
    if not name:
        raise _malformed("usdt", span, "the usdt attach point names no probe")
    return AttachPoint("usdt", text, span, path or None, provider or None, name)


def _uprobe(kind: AttachKind, text: str, parts: list[Part], span: Span) -> AttachPoint:
    fields = parts[1:]
    cpp = len(fields) == 3 and fields[1].text == "cpp"
    if cpp:
        fields = [fields[0], fields[2]]
    at_line = _source_line(fields)
    if at_line is not None:
        return _at_line(kind, text, span, *at_line)
    if len(fields) != 2:
        raise _malformed(kind, span, _miscount(kind, [part.text for part in fields], "a file and a function"))
    path, place = fields[0].text or None, fields[1]
    name = place.text
    if not name:
        raise _malformed(kind, span, f"the {kind} attach point names no function")
    if place.bare == name and _NUMBER.fullmatch(name):
        return AttachPoint(kind, text, span, path, address=_number(name))
    found = _OFFSET.search(place.bare)
    if found is None:
        return AttachPoint(kind, text, span, path, name=name, cpp=cpp)
    if kind == "uretprobe":
        raise Fault(
            Diagnostic("a uretprobe cannot have an offset", span, "a function returns as a whole: leave the offset out")
        )
    name = name[: len(name) - len(found.group())]
    if not name:
        raise _malformed(kind, span, f"the {kind} attach point has an offset but no function")
    return AttachPoint(kind, text, span, path, name=name, offset=_number(found[1]), cpp=cpp)


def _source_line(fields: list[Part]) -> tuple[str, str, list[Part]] | None:
    """The file, the source file and the numbers of `FILE:SOURCE:LINE[:COLUMN]` or `FILE@SOURCE:LINE[:COLUMN]`; None for
    what is neither. An @ in quotes belongs to the file's name.
    """
    numbers = fields[-2:] if len(fields) > 1 and _is_line(fields[-2]) else fields[-1:]
    named = fields[: len(fields) - len(numbers)]
    if not named or not _is_line(numbers[-1]):
        return None
    if len(named) == 2 and named[1].text:
        return named[0].text, named[1].text, numbers
    path, at, source = named[0].bare.rpartition("@")
    if len(named) == 1 and at and source:
        return named[0].text[: -len(named[0].bare)] + path, source, numbers
    return None


def _is_line(part: Part) -> bool:
    return part.bare == part.text and _LINE.fullmatch(part.text) is not None


def _at_line(kind: AttachKind, text: str, span: Span, path: str, source: str, numbers: list[Part]) -> AttachPoint:
    if kind == "uretprobe":
        raise Fault(
            Diagnostic(
                "a uretprobe cannot be at a source line", span, "a function returns as a whole: name the function"
            )
        )
    line, column = int(numbers[0].text), int(numbers[1].text) if len(numbers) > 1 else 0
    if line == 0:
        raise Fault(Diagnostic("there is no line 0", numbers[0].span, "lines are counted from 1"))
    return AttachPoint(kind, text, span, path or None, source=source, line=line, column=column)


def _number(text: str) -> int:
    return int(text, 16) if text[:2] in ("0x", "0X") else int(text[:40])


def _miscount(kind: str, fields: list[str], wanted: str) -> str:
    if any(field == "" for field in fields[1:-1]) and len(fields) > 3:
        return f"the {kind} attach point has too many parts: a name that holds colons needs quotes"
    if len(fields) < 2:
        return f"the {kind} attach point is incomplete: it needs {wanted}"
    return f"the {kind} attach point has too many parts"


def _period(parts: list[Part], span: Span) -> int:
    """The nanoseconds between two ticks."""
    fields = [part.text for part in parts[1:]]
    period = None
    if len(fields) == 1 and (found := _DURATION.fullmatch(fields[0])):
        period = int(found[1][:25]) * DURATIONS_NS[found[2]]
    elif len(fields) == 2 and fields[1].isascii() and fields[1].isdigit():
        count = int(fields[1][:25])
        if fields[0] == "hz":
            period = 1_000_000_000 // count if count else 0
        elif fields[0] in _UNITS_NS:
            period = count * _UNITS_NS[fields[0]]
        else:
            raise _malformed("interval", parts[1].span, f"'{fields[0]}' is not a unit of time")
    if period is None:
        raise _malformed("interval", span, "the interval has no unit and number")
    if not SHORTEST_PERIOD_NS <= period <= LONGEST_PERIOD_NS:
        raise _malformed("interval", span, "the interval is out of range: at least 1 us")
    return period
