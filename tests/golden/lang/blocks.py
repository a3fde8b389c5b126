"""The golden files of the language, and the command that writes them anew.

A file `dumps_*.txt` holds cases of program, AST dump and typed dump; a file `errors_*.txt` cases of program and
rendered diagnostics. A case is

    ## what it shows
    the program
    --- ast
    …
    --- typed
    …

`python -m tests.golden.lang.blocks --write` fills in everything after the programs; look at the difference before you
commit it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.unit.lang.programs import rendered, sites_of
from tracer.errors import ProgramError, Source
from tracer.lang.analyse import analyse
from tracer.lang.printing.syntax import print_ast
from tracer.lang.printing.typed import print_typed
from tracer.lang.syntax.parser import parse

HERE = Path(__file__).parent
PARAMS = ("42", "cocoa", "-7")
"""What `$1`, `$2` and `$3` are in every case."""


class Block(NamedTuple):
    """One case: what it shows, the program, and everything that stands below it."""

    title: str
    program: str
    expected: str


def files(kind: str) -> list[Path]:
    """The golden files of one kind, "dumps" or "errors"."""
    return sorted(HERE.glob(f"{kind}_*.txt"))


def blocks(path: Path) -> Iterator[Block]:
    """The cases of a file."""
    for piece in path.read_text().split("## ")[1:]:
        title, _, rest = piece.partition("\n")
        program, rule, expected = rest.partition("--- ")
        yield Block(title, program.rstrip("\n"), (rule + expected).rstrip("\n"))


def dumps(program: str) -> str:
    """Both dumps of a valid program."""
    try:
        tree = parse(Source(program), PARAMS)
        typed = analyse(tree, sites_of(tree))
    except ProgramError as error:
        raise AssertionError(rendered(error.source, error.diagnostics)) from None
    said = "".join(f"--- said\n{rendered(typed.source, typed.warnings)}" for _ in typed.warnings[:1])
    return f"--- ast\n{print_ast(tree)}--- typed\n{print_typed(typed)}{said}".rstrip("\n")


def errors(program: str) -> str:
    """The diagnostics of a program that is wrong."""
    try:
        tree = parse(Source(program), PARAMS)
        analyse(tree, sites_of(tree))
    except ProgramError as error:
        return f"--- errors\n{rendered(error.source, error.diagnostics)}".rstrip("\n")
    raise AssertionError(f"there is nothing wrong with: {program}")


def main() -> None:
    """Checks the files, or writes them with `--write`."""
    for kind, produce in (("dumps", dumps), ("errors", errors)):
        for path in files(kind):
            pieces = [f"## {b.title}\n{b.program}\n{produce(b.program)}\n" for b in blocks(path)]
            text = "\n".join(pieces)
            if text != path.read_text():
                print(f"{path.name} differs")
                if "--write" in sys.argv:
                    path.write_text(text)


if __name__ == "__main__":
    main()
