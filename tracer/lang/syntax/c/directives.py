"""`#define`, `#include` and conditions: what a C preprocessor does to a program before it is read.

A program that only defines needs none. For headers and conditions the directives, and nothing else of the program, go
through `cc -E`; it tells which lines of the program are left out. What is no longer needed becomes blanks, so that
every place in the text stays what it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from tracer.dataclass import NamedTuple, names, replace
from tracer.errors import Diagnostic, Fault, Span
from tracer.lang.syntax import ast

AnyPart = TypeVar("AnyPart", bound="ast.Expr | ast.TypeName")

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*([a-z]+)((?:\\\r?\n|[^\n])*)", re.M)
_DEFINITION = re.compile(r"\s*([A-Za-z_]\w*)(\()?(.*)", re.S)
_HEADER = re.compile(r'\s*(["<])([^">]+)[">]')
_MARKER = re.compile(r'# ([0-9]+) "((?:\\.|[^"\\])*)"')
_COMPLAINT = re.compile(r"^<stdin>:([0-9]+):(?:[0-9]+:)? (?:fatal )?error: (.*)$", re.M)
_ANY_COMPLAINT = re.compile(r"^.*?(?:fatal )?error: (.*)$", re.M)
_WORDS = ("define", "undef", "include", "ifdef", "ifndef", "if", "elif", "else", "endif", "pragma", "error", "warning")
_HAVE_BTF = "BPFTRACE_HAVE_BTF"
_LINE = "__line_of_the_program__"
_PATIENCE_S = 20
_MOST_HEADERS, _MOST_OF_HEADER = 1000, 1 << 22
"""How many headers are looked at for those that they include, and how much of each."""
_COMPILERS = ("cc", "gcc", "clang")


class Preprocessed(NamedTuple):
    """The program with blanks for what is not its own, its macros without parameters, and the text of the headers."""

    text: str
    macros: dict[str, str]
    headers: str = ""


def preprocess(text: str, includes: Sequence[str] = (), paths: Sequence[str] = ()) -> Preprocessed:
    """The program without its directives. `includes` are headers that the command line names, `paths` where to look for
    headers. Raises `Fault`.
    """
    directives = list(_directives(text))
    for word, _, span in directives:
        if word not in _WORDS:
            hint = "known are #include, #define and conditions; comments begin with //"
            raise Fault(Diagnostic(f"unknown directive '#{word}'", span, hint))
    blanked = list(text)
    for _, _, span in directives:
        _blank(blanked, span.start, span.end)
    if not includes and all(word in ("define", "undef", "pragma") for word, _, _ in directives):
        macros = dict.fromkeys(_of_kernel(), "1") if _HAVE_BTF in text else {}
        return Preprocessed("".join(blanked), _defined(((word, rest) for word, rest, _ in directives), macros))
    output = _run(text, directives, includes, paths)
    macros, headers, lines = _read(output)
    start = 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        if number not in lines:
            _blank(blanked, start, start + len(line))
        start += len(line)
    return Preprocessed("".join(blanked), macros, headers)


def _directives(text: str) -> Iterator[tuple[str, str, Span]]:
    """The directives that stand in no comment: the word, the rest, the place."""
    comments = [comment.span() for comment in _COMMENT.finditer(text)]
    for match in _DIRECTIVE.finditer(text):
        start = match.start() + len(match.group()) - len(match.group().lstrip())
        if not any(first < start < last for first, last in comments):
            rest = re.sub(r"\\\r?\n", " ", match[2])
            yield match[1], re.sub(r"/\*.*?\*/|//.*", " ", rest, flags=re.S), Span(start, match.end())


def _blank(text: list[str], start: int, end: int) -> None:
    for offset in range(start, end):
        if text[offset] != "\n":
            text[offset] = " "


def _defined(directives: Iterator[tuple[str, str]], macros: dict[str, str]) -> dict[str, str]:
    """The macros, those that were there before included."""
    for word, rest in directives:
        definition = _DEFINITION.match(rest)
        if definition is None:
            continue
        if word == "undef":
            macros.pop(definition[1], None)
        elif word == "define" and not definition[2]:
            macros[definition[1]] = definition[3].strip()
    return macros


def _run(text: str, directives: list[tuple[str, str, Span]], includes: Sequence[str], paths: Sequence[str]) -> str:
    import os
    import shutil
    import subprocess

    first = next((span for word, _, span in directives if word not in ("define", "undef", "pragma")), Span(0, 0))
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        hint = "install a C compiler, gcc or clang; types can be declared in the program itself"
        raise Fault(Diagnostic("headers and conditions need a C compiler, and there is none", first, hint))
    _refuse_irregular(directives, includes, paths)
    wanted = [*(f"-I{path}" for path in paths), *(word for name in includes for word in ("-include", name))]
    try:
        done = subprocess.run(
            [compiler, "-E", "-dD", *(f"-D{name}=1" for name in _of_kernel()), "-x", "c", *wanted, "-"],
            input=_skeleton(text, directives).encode(errors="replace"),
            capture_output=True, timeout=_PATIENCE_S, check=False, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"takes longer than {_PATIENCE_S} s" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        raise Fault(Diagnostic(f"{compiler} {why}", first)) from None
    if done.returncode:
        raise Fault(_complaint(text, done.stderr.decode(errors="replace"), directives))
    return done.stdout.decode(errors="replace")


def _of_kernel() -> list[str]:
    """The macro by which bpftrace tells a program that the kernel describes its types, so that it needs no headers."""
    import os

    from tracer.lang.types.declared import OF_KERNEL

    return [_HAVE_BTF] if os.path.exists(OF_KERNEL) else []


def _refuse_irregular(directives: list[tuple[str, str, Span]], includes: Sequence[str], paths: Sequence[str]) -> None:
    """Raises `Fault` for a header that is a FIFO or a device, also one that a header includes: the compiler would wait
    for it, or read without end.
    """
    import os

    from tracer.opening import content

    named: list[tuple[str, str | None, Span]] = [(name, "", Span(0, 0)) for name in includes]
    named += [(*header, span) for word, rest, span in directives if word == "include" for header in _header(rest, "")]
    seen: set[str] = set()
    while named and len(seen) < _MOST_HEADERS:
        name, here, span = named.pop()
        places = (os.path.join(place, name) for place in (*([here] if here is not None else []), *paths))
        path = next(filter(_is_there, places), None)
        if path is None or path in seen:
            continue
        seen.add(path)
        try:
            text = content(path, _MOST_OF_HEADER).decode("utf-8", "replace")
        except OSError as error:
            if not os.path.isfile(path):
                raise Fault(Diagnostic(f"{path}: {error.strerror}", span)) from None
            continue  # the compiler says it
        folder = os.path.dirname(path)
        for word, rest, _ in _directives(text):
            if word == "include":
                named += [(*header, span) for header in _header(rest, folder)]


def _is_there(path: str) -> bool:
    import os

    from tracer.opening import await_server

    await_server(path)
    return os.path.exists(path)


def _header(rest: str, here: str) -> list[tuple[str, str | None]]:
    """The name that an #include has, and the folder that is searched first, as far as one is."""
    header = _HEADER.match(rest)
    return [] if header is None else [(header[2], here if header[1] == '"' else None)]


def _skeleton(text: str, directives: list[tuple[str, str, Span]]) -> str:
    """The directives of a program among the numbers of all other lines, as many lines as it has."""
    of_directives = {text.count("\n", 0, span.start): span for _, _, span in directives}
    lines = [f"{_LINE} {number}" for number in range(text.count("\n") + 1)]
    for number, span in of_directives.items():
        whole = text[span.start : span.end].split("\n")
        lines[number : number + len(whole)] = whole
    return "\n".join(lines) + "\n"


def _complaint(text: str, log: str, directives: list[tuple[str, str, Span]]) -> Diagnostic:
    """The preprocessor's first error, under the directive that it is about."""
    complaint = _COMPLAINT.search(log)
    if complaint is not None:
        number = int(complaint[1]) - 1
        span = next((span for _, _, span in directives if text.count("\n", 0, span.start) == number), Span(0, 0))
        missing = complaint[2].endswith("No such file or directory")
        return Diagnostic(complaint[2], span, "-I DIR adds a directory to search for headers" if missing else None)
    first = _ANY_COMPLAINT.search(log)
    return Diagnostic(first[1] if first else "the preprocessor failed", Span(0, 0))


def _read(output: str) -> tuple[dict[str, str], str, set[int]]:
    """The macros, the text of headers alone, and which lines of the program are not left out."""
    definitions: list[tuple[str, str]] = []
    headers: list[str] = []
    lines: set[int] = set()
    file = ""
    for line in output.split("\n"):
        if line.startswith("#"):
            marker = _MARKER.match(line)
            word, _, rest = line[1:].partition(" ")
            if marker is not None:
                file = marker[2]
            elif word in ("define", "undef") and file != "<built-in>":
                definitions.append((word, rest))
            elif word == "pragma":
                headers.append(line)
        elif file == "<stdin>":
            if line.startswith(_LINE):
                lines.add(int(line[len(_LINE) :]))
        else:
            headers.append(line)
    return _defined(iter(definitions), {}), "\n".join(headers), lines


def placed_at(node: AnyPart, span: Span) -> AnyPart:
    """The parts that a macro stands for, all of which stand where its name does."""
    changes: dict[str, Any] = {}
    for name in names(node):
        value: Any = getattr(node, name)
        if isinstance(value, Span):
            changes[name] = span
        elif isinstance(value, (ast.Expr, ast.TypeName)):
            changes[name] = placed_at(value, span)
        elif isinstance(value, tuple):
            changes[name] = tuple(
                [placed_at(item, span) if isinstance(item, (ast.Expr, ast.TypeName)) else item for item in value]
            )
    return replace(node, **changes)
