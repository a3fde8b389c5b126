"""Attach points: `usdt:/bin/app:prov:name`, `uprobe:libc:malloc+8`, `uprobe:/bin/app:shop.c:36`, `interval:s:1`.

They are read from the bare text, since a path holds what would be operators elsewhere. An attach point is a list of
parts between colons and ends at a blank, a comma, `{`, or a `/` after the path, which opens the predicate. Quotes make
all of these ordinary: `uprobe:/bin/app:"ns::f(int, char*)"`. `$1` stands for the program's first argument. What the
parts mean is said by the kind of probe. `build-id:4fc5…` is one part, and stands for a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracer.dataclass import replace
from tracer.errors import Diagnostic, Fault, Span
from tracer.kinds.model import AttachPoint, Part, ProbeKind
from tracer.kinds.registry import SPELLINGS, named

# Slashes in the name of a source file: what follows up to the line's number, which no predicate looks like.
_SOURCE_PATH = r"[\w.+\-/~@%]*:[0-9]+([:-][0-9]+)?(?=[\s,{/]|$)"
_BUILD_ID = "build-id"
"""Before a build-id, which then stands for the file: `uprobe:build-id:4fc5…:main`."""
_NAME = re.compile(r"\w+=", re.ASCII)
_ESCAPE = re.compile(rb'\\(["\\nrt]|x[0-9a-fA-F]{2})')
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_OF_TESTS = re.compile(r"(?:\w+=)?(?:test|bench):[^\s:,/{}]+(?=[\s,/{])", re.ASCII)
_SPAN = "span:"
_BETWEEN = r'(?:"(?:\\.|[^"\\\n])*"|[^"\s,{{])*?(\.\.)(?=(?:{}):)'
"""The dots behind the first probe of a span, which stand before the kind of the other."""
_PARAM = r"\$([0-9]{1,6})"


def scan(text: str, start: int, params: Sequence[str] = ()) -> tuple[list[Part], int]:
    """The parts of the attach point at `start`, and the offset after it. Raises `Fault`."""
    parts: list[Part] = []
    position = part_start = start
    whole, bare = "", ""
    while position < len(text):
        char = text[position]
        if char == '"':
            end = position + 1
            while end < len(text) and text[end] not in '"\n':
                end += 2 if text[end] == "\\" and text[end + 1 : end + 2] in ('"', "\\") else 1
            if end >= len(text) or text[end] != '"':
                what = "the quotes in the attach point are not closed"
                raise Fault(Diagnostic(what, Span(position, min(end, len(text))), 'end them with "'))
            path = len(parts) == 1 and _takes_path(parts[0].text)
            whole += _meant(text[position + 1 : end]) if path else re.sub(r'\\(["\\])', r"\1", text[position + 1 : end])
            bare = ""
            position = end + 1
            continue
        if char == ":" and not (len(parts) == 1 and whole == bare == _BUILD_ID and _takes_path(parts[0].text)):
            parts.append(Part(whole, bare, Span(part_start, position)))
            whole, bare, part_start = "", "", position + 1
        elif (char == "/" and len(parts) == 2 and _takes_source(parts[0])
              and re.match(_SOURCE_PATH, text[position + 1 :])):  # fmt: skip
            piece = text[position:].partition(":")[0]
            whole += piece
            bare += piece
            position += len(piece)
            continue
        elif char in " \t\r\n\f\v,{" or (char == "/" and not (len(parts) == 1 and _takes_path(parts[0].text))):
            break
        elif char == "$" and (param := re.match(_PARAM, text[position:])):
            index = int(param[1])
            piece = params[index - 1] if 0 < index <= len(params) else ""
            if not parts and not whole:  # `$1 { … }`: the argument may be all of the attach point
                *before, piece = piece.split(":")
                parts += [Part(text, text, Span(position, position + param.end())) for text in before]
            whole += piece
            bare += piece
            position += param.end()
            continue
        else:
            whole += char
            bare += char
        position += 1
    parts.append(Part(whole, bare, Span(part_start, position)))
    return parts, position


def end_of(text: str, start: int) -> int:
    """The offset behind the attach point at `start`, that of a span included. Raises `Fault`."""
    between = _between(text, start) if text.startswith(_SPAN, start) else None
    return scan(text, start if between is None else between.end(1))[1]


def _between(text: str, start: int) -> re.Match[str] | None:
    """The dots of the span at `start`."""
    return re.compile(_BETWEEN.format("|".join(SPELLINGS))).match(text, start + len(_SPAN))


def _meant(quoted: str) -> str:
    r"""The path that quotes hold, with `\n`, `\r`, `\t` and bytes (`\xff`) as `in_quotes` of resolve/listing writes.
    Only in paths: the name of a function is compared with one whose bytes that are no text are escaped already.
    """
    escaped = _ESCAPE.sub(_byte, quoted.encode("utf-8", "surrogateescape"))
    return escaped.decode("utf-8", "surrogateescape")


def _byte(escape: re.Match[bytes]) -> bytes:
    said = escape[1]
    return bytes.fromhex(said[1:].decode()) if said[:1] == b"x" else _ESCAPED.get(said, said)


def _takes_path(word: str) -> bool:
    """Whether the part after the probe type may hold slashes: all but the types without a file."""
    return word not in SPELLINGS or bool(SPELLINGS[word].target)


def _takes_source(word: Part) -> bool:
    return word.text in SPELLINGS and SPELLINGS[word.text].source_lines


def _span(text: str, start: int, params: Sequence[str]) -> tuple[AttachPoint, int]:
    """`span:PROBE..PROBE`: the first probe, which has the other as its end. Raises `Fault`."""
    form = "write span:PROBE..PROBE, as in span:usdt:FILE:PROVIDER:NAME..usdt:FILE:PROVIDER:NAME"
    begin, between = start + len(_SPAN), _between(text, start)
    if between is None:
        end = scan(text, begin, params)[1]
        raise Fault(Diagnostic("a span has two probes, with two dots between them", Span(start, end), form))
    first, end = read(text[: between.start(1)], begin, params)
    if end != between.start(1):
        raise Fault(Diagnostic("the first probe of the span has ended before this", Span(end, between.start(1)), form))
    last, end = read(text, between.end(1), params)
    for point in (first, last):
        kind = SPELLINGS[point.kind]
        if not kind.clause.at_hits or kind.pairs:
            what = f"a span is between two probes, and {point.kind} is none that is hit once at its start or end"
            raise Fault(Diagnostic(what, point.span, "name a usdt, uprobe, uretprobe or tracepoint"))
    return replace(first, until=last), end


def left_out(text: str, start: int) -> int | None:
    """The offset behind an attach point of the kinds that bpftrace leaves out unless it is asked for tests; None where
    another one stands.
    """
    match = _OF_TESTS.match(text, start)
    return None if match is None else match.end()


def read(text: str, start: int, params: Sequence[str] = ()) -> tuple[AttachPoint, int]:
    """The attach point at `start` of `text`, behind a name of its own (`name=BEGIN`) that says nothing, and the offset
    after it. Raises `Fault`.
    """
    if named := _NAME.match(text, start):
        start = named.end()
    if text.startswith(_SPAN, start):
        return _span(text, start, params)
    parts, end = scan(text, start, params)
    for part in parts:
        if not part.text:
            _check_given(text, part.span, params)
    try:
        return build(text[start:end], parts, Span(start, end)), end
    except Fault:
        from tracer.lang.foreign import places

        kind = SPELLINGS.get(parts[0].text)
        shared = parts[0].text in places.SHARED
        translated = places.meant(text, start, shared) if kind is None or shared else None
        if translated is not None:
            span = Span(start, max(end, start + translated.length))
            raise Fault(Diagnostic(translated.message, span, translated.hint)) from None
        _check_given(text, Span(start, end), params)
        raise


def _check_given(text: str, span: Span, params: Sequence[str]) -> None:
    """Raises a fault for a `$1` there for which there is no word."""
    for param in re.finditer(_PARAM, text[span.start : span.end]):
        if int(param[1]) > len(params):
            where = Span(span.start + param.start(), span.start + param.end())
            hint = "it is a word behind the program on the command line"
            raise Fault(Diagnostic(f"{param[0]} is not given", where, hint)) from None


def build(text: str, parts: list[Part], span: Span) -> AttachPoint:
    """An attach point from its parts. Raises `Fault`."""
    kind = SPELLINGS.get(parts[0].text)
    if kind is None:
        raise Fault(_unknown_kind(parts[0].text, parts, span))
    try:
        point = kind.build(text, parts, span)
    except Fault:
        _refuse_foreign(kind, parts, span)
        raise
    if text.endswith("%return"):
        _refuse_foreign(kind, parts, span)
    return point


def _refuse_foreign(kind: ProbeKind, parts: list[Part], span: Span) -> None:
    from tracer.lang.foreign import places

    if kind.target == "function" and (translated := places.parts([part.text for part in parts[1:]])) is not None:
        raise Fault(Diagnostic(translated.message, span, translated.hint)) from None


def refusal(word: str) -> tuple[str, str] | None:
    """The reason why a kind of probe of bpftrace is not supported, and its remedy; None for any other word."""
    from tracer.lang import unsupported

    if word not in unsupported.PROBES:
        return None
    reason, remedy = unsupported.PROBES[word]
    return f"{unsupported.SHORT_PROBES.get(word, word)} probes are not supported: {reason}", remedy


def _unknown_kind(word: str, parts: list[Part], span: Span) -> Diagnostic:
    if (refused := refusal(word)) is not None:
        from tracer.lang.unsupported import EVENT

        return Diagnostic(refused[0], span, refused[1].replace(EVENT, parts[-1].text) if len(parts) > 1 else refused[1])
    if not word:
        return Diagnostic("the attach point has no probe type", span, "it starts with usdt:, uprobe:, BEGIN, …")
    from tracer.lang import suggest

    kinds = [name for name in SPELLINGS if len(name) > 2]
    return Diagnostic(
        f"unknown probe type '{word}'",
        parts[0].span,
        suggest.hint(word, kinds, f"known are {named()}"),
    )
