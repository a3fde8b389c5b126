"""What the language's tests share: sites made by hand, and diagnostics as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tracer.errors import Diagnostic, ProgramError, Source
from tracer.kinds.registry import KINDS
from tracer.kinds.site import ArgSpec, FileIdentity, FileSite, Reg, Site
from tracer.lang import typed
from tracer.lang.analyse import analyse
from tracer.lang.syntax import ast
from tracer.lang.syntax.parser import parse

IDENTITY = FileIdentity(device=1, inode=2, size=3, mtime_ns=4)
REGISTERS = ("di", "si", "dx", "cx", "r8", "r9")
USDT_ARGUMENTS = 5
"""How many arguments a USDT probe of these tests has; one whose name is `bare` has none."""


def site_of(point: ast.AttachPoint) -> FileSite:
    """A site for an attach point, as resolution would give it."""
    path = point.path or "/bin/app"
    name = point.name or f"{point.address or 0:#x}"
    if point.kind == "usdt":
        count = 0 if name == "bare" else USDT_ARGUMENTS
        args = tuple(ArgSpec(f"8@%r{register}", 8, False, Reg(register)) for register in REGISTERS[:count])
        probe = f"usdt:{path}:{point.provider or 'shop'}:{name}"
        return FileSite("usdt", probe, "checkout", args, 0, path, IDENTITY, 0x401000, 0x1000)
    args = tuple(ArgSpec(f"8@%r{register}", 8, False, Reg(register)) for register in REGISTERS)
    kind: Literal["uprobe", "uretprobe"] = "uprobe" if point.kind == "uprobe" else "uretprobe"
    return FileSite(kind, f"{kind}:{path}:{name}", name, args, 0, path, IDENTITY, 0x402000, 0x2000)


def sites_of(program: ast.Program) -> dict[int, tuple[Site, ...]]:
    """A site for every attach point of a program."""
    return {
        index: tuple(
            (KINDS[point.kind].alone or site_of)(point).of_point(number) for number, point in enumerate(clause.points)
        )
        for index, clause in enumerate(program.clauses)
    }


def analysed(text: str, *params: str, unsafe: bool = False) -> typed.Program:
    """The typed program of a text."""
    program = parse(Source(text), params)
    return analyse(program, sites_of(program), {"TRACER_UNSAFE": "1"} if unsafe else {})


def faults(text: str, *params: str) -> str:
    """The rendered diagnostics of a text that is wrong."""
    try:
        analysed(text, *params)
    except ProgramError as error:
        return rendered(error.source, error.diagnostics)
    raise AssertionError(f"there is nothing wrong with: {text}")


def rendered(source: Source, diagnostics: Iterable[Diagnostic]) -> str:
    """Each diagnostic with its line, carets under the span, and the hint."""
    lines = []
    for diagnostic in diagnostics:
        row, column = source.position(diagnostic.span.start)
        line = source.text.split("\n")[row - 1]
        length = min(diagnostic.span.end - diagnostic.span.start, len(line) - column + 1)
        lines.append(f"{diagnostic.severity}: {diagnostic.message}")
        lines.append(f"  {line}")
        lines.append("  " + " " * (column - 1) + "^" * max(1, length))
        if diagnostic.hint:
            lines.append(f"  hint: {diagnostic.hint}")
    return "\n".join(lines) + "\n"
