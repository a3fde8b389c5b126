"""Probes on functions: `uprobe:libc:malloc+8`, `uprobe:/bin/app:shop.c:36`, `uretprobe:libc:malloc`,
`call:libc:malloc`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracer.errors import Diagnostic, Fault, Span
from tracer.kinds.model import (
    AT_ENDS,
    AT_HITS,
    AttachKind,
    AttachPoint,
    Part,
    ProbeKind,
    SearchedFile,
    malformed,
    miscount,
)

if TYPE_CHECKING:
    from tracer.kinds.site import FileSite

_FORMS: dict[AttachKind, str] = {
    "uprobe": (
        "uprobe:FILE:FUNCTION, uprobe:FILE:FUNCTION+OFFSET, uprobe:FILE@SOURCE:FUNCTION[:*], uprobe:FILE:0xADDRESS,"
        " uprobe:FILE:offset:0xOFFSET or uprobe:FILE:SOURCE:LINE[-LINE]"
    ),
    "uretprobe": "uretprobe:FILE:FUNCTION or uretprobe:FILE@SOURCE:FUNCTION",
    "call": "call:FILE:FUNCTION or call:FILE@SOURCE:FUNCTION",
}
_NUMBER = r"0[xX][0-9a-fA-F]+|[0-9]+"
_OFFSET = r"\+(0[xX][0-9a-fA-F]+|[0-9]+)$"
_LINE = r"[0-9]{1,9}"
_LINES = rf"({_LINE})-({_LINE})"


def _build(kind: AttachKind, text: str, parts: list[Part], span: Span) -> AttachPoint:
    fields = parts[1:]
    cpp = len(fields) > 2 and fields[1].text == "cpp"
    by_line = len(fields) == 3 + cpp and fields[-1].bare == fields[-1].text == "*" and _apart(fields[0]) is not None
    if by_line:
        fields = fields[:-1]
    cpp = cpp and len(fields) == 3
    if cpp:
        fields = [fields[0], fields[2]]
    if by_line:
        return _by_line(kind, text, span, fields, cpp)
    if len(fields) == 3 and fields[1].text == fields[1].bare == "offset":
        return _at_file_offset(kind, text, span, fields[0].text, fields[2])
    at_line = _source_line(fields)
    if at_line is not None:
        return _at_line(kind, text, span, *at_line)
    if len(fields) != 2:
        what = miscount(kind, [part.text for part in fields], "a file and a function")
        raise malformed(_FORMS[kind], span, what)
    path, place = fields[0].text or None, fields[1]
    name = place.text
    if not name:
        raise malformed(_FORMS[kind], span, f"the {kind} attach point names no function")
    if place.bare == name and re.fullmatch(_NUMBER, name):
        return AttachPoint(kind, text, span, path, address=_number(name))
    offset, apart = re.search(_OFFSET, place.bare), _apart(fields[0])
    if offset is None:
        return AttachPoint(kind, text, span, path, name=name, cpp=cpp, apart=apart)
    if kind != "uprobe":
        hint = "a function returns as a whole: leave the offset out"
        raise Fault(Diagnostic(f"a {kind} cannot have an offset", span, hint))
    name = name[: len(name) - len(offset.group())]
    if not name:
        raise malformed(_FORMS[kind], span, f"the {kind} attach point has an offset but no function")
    return AttachPoint(kind, text, span, path, name=name, offset=_number(offset[1]), cpp=cpp, apart=apart)


def _at_file_offset(kind: AttachKind, text: str, span: Span, path: str, place: Part) -> AttachPoint:
    if not re.fullmatch(_NUMBER, place.bare) or place.bare != place.text:
        raise malformed(f"{kind}:FILE:offset:0xOFFSET", place.span, "what follows 'offset' is a place in the file")
    return AttachPoint(kind, text, span, path or None, file_offset=_number(place.text))


def _source_line(fields: list[Part]) -> tuple[str, str, list[Part]] | None:
    """The file, the source file and the numbers of `FILE:SOURCE:LINE[:COLUMN]`, `FILE:SOURCE:LINE-LINE`, or the same
    with `FILE@SOURCE`; None for what is none of them. An @ in quotes belongs to the file's name.
    """
    numbers = fields[-2:] if len(fields) > 1 and _is_line(fields[-2]) else fields[-1:]
    named = fields[: len(fields) - len(numbers)]
    if not named or not (_is_line(numbers[-1]) or (len(numbers) == 1 and _is_line(numbers[0], _LINES))):
        return None
    if len(named) == 2 and named[1].text:
        return named[0].text, named[1].text, numbers
    apart = _apart(named[0])
    return (*apart, numbers) if len(named) == 1 and apart is not None else None


def _apart(part: Part) -> tuple[str, str] | None:
    """The file and the source file of `FILE@SOURCE`."""
    path, separator, source = part.bare.rpartition("@")
    return (part.text.removesuffix(part.bare) + path, source) if separator and source else None


def _is_line(part: Part, form: str = _LINE) -> bool:
    return part.bare == part.text and re.fullmatch(form, part.text) is not None


def _at_line(kind: AttachKind, text: str, span: Span, path: str, source: str, numbers: list[Part]) -> AttachPoint:
    _refuse_return(kind, span)
    first, _, last = numbers[0].text.partition("-")
    line, column = int(first), int(numbers[1].text) if len(numbers) > 1 else 0
    if line == 0:
        raise Fault(Diagnostic("there is no line 0", numbers[0].span, "lines are counted from 1"))
    if last and int(last) < line:
        what = f"the lines {first}-{last} end before they begin"
        raise Fault(Diagnostic(what, numbers[0].span, f"write {last}-{first}"))
    return AttachPoint(kind, text, span, path or None, source=source, line=line, last=int(last or 0), column=column)


def _by_line(kind: AttachKind, text: str, span: Span, fields: list[Part], cpp: bool) -> AttachPoint:
    """`FILE@SOURCE:FUNCTION:*`."""
    _refuse_return(kind, span)
    apart, name = _apart(fields[0]), fields[1].text if len(fields) == 2 else ""
    if not name or apart is None:
        raise malformed(f"{kind}:FILE@SOURCE:FUNCTION:*", span, "the lines of a function are meant, and none is named")
    path, source = apart
    return AttachPoint(kind, text, span, path or None, name=name, source=source, by_line=True, cpp=cpp)


def _refuse_return(kind: AttachKind, span: Span) -> None:
    if kind != "uprobe":
        hint = "a function returns as a whole: name the function"
        raise Fault(Diagnostic(f"a {kind} cannot be at a source line", span, hint))


def _number(text: str) -> int:
    return int(text, 16) if text[:2] in ("0x", "0X") else int(text[:40])


def _sites(point: AttachPoint, file: SearchedFile) -> list[FileSite]:
    return file.source_lines(point) if point.is_of_lines else file.functions(point)


def _pattern(fields: list[str]) -> tuple[str, str, bool]:
    cpp = len(fields) == 2 and fields[0] == "cpp"
    return "*", ":".join(fields[cpp:]), cpp


def _kind(name: AttachKind, spellings: tuple[str, ...], reads: tuple[str, ...], *places: str) -> ProbeKind:
    clause, where = (AT_ENDS, "a call") if "call" in reads else (AT_HITS, "a probe")
    return ProbeKind(
        name, spellings, _FORMS[name], lambda text, parts, span: _build(name, text, parts, span),
        clause, where, frozenset(("probe", "signal", "registers", *reads)), "function", True, _sites, _pattern,
        places=places,
    )  # fmt: skip


UPROBE = _kind("uprobe", ("uprobe", "u"), ("arguments",), "uprobe")
URETPROBE = _kind("uretprobe", ("uretprobe", "ur"), ("return",), "uretprobe", "ret")
CALL = _kind("call", ("call",), ("arguments", "return", "call"), "call")
