"""`import "file.bt";`: the texts that a program is made of.

The text of a file that is imported stands behind the program's own, so that a place in the text is one number wherever
it lies, and `Source.parts` tells which file that is. Each file is read once, however often it is named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tracer.dataclass import replace
from tracer.errors import Diagnostic, Fault, Source, Span
from tracer.opening import await_server, content

SUFFIX = ".bt"
MOST_BYTES = 1 << 20
"""How long an imported file may be."""

STANDARD = {
    "": "", "arch": "", "base": "", "map": "", "meta": "", "network": "", "process": "", "strings": "", "system": "",
    "test": "macro __always_true() { 1 }",
}  # fmt: skip
"""What `stdlib/NAME` holds that is no function here anyway."""


class Imports:
    """The files that have been imported so far; shared by the parsers of all files of a program."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._seen = set() if source.name in ("-e", "stdin") else {_identity(Path(source.name))}

    def texts(self, name: str, importer: str, span: Span) -> Iterator[tuple[int, str]]:
        """The files that a name means and nobody has imported yet: where each begins in the whole text, and its own.
        Each is the end of the whole text when it is given. Raises `Fault`.
        """
        library = name.removesuffix("/").removesuffix(SUFFIX).removeprefix("stdlib")
        if library == "" or (library.startswith("/") and library[1:] in STANDARD):
            if not name.startswith("stdlib"):
                raise _missing(name, span)
            if text := STANDARD[library[1:]]:
                yield from self._added(name, text)
            return
        for path in _files(name, importer, span):
            if _identity(path) not in self._seen:
                yield from self._added(str(path), _read(path, span))

    def _added(self, name: str, text: str) -> Iterator[tuple[int, str]]:
        identity = _identity(Path(name))
        if identity not in self._seen:
            self._seen.add(identity)
            start = len(self.source.text) + 1
            whole = f"{self.source.text}\n{text}"
            self.source = replace(self.source, text=whole, parts=(*self.source.parts, (start, name)))
            yield start, text


def _files(name: str, importer: str, span: Span) -> list[Path]:
    """The file of a name, or those of a folder in their order: beside the importing file, else in the current one."""
    beside = Path(importer).parent if importer not in ("-e", "stdin") else Path()
    try:
        for place in (beside / name, Path(name)):
            await_server(str(place))
        path = next((place for place in (beside / name, Path(name)) if name and place.exists()), None)
        if path is not None and path.is_dir():
            return sorted(file for file in path.iterdir() if file.suffix == SUFFIX)
    except OSError as error:
        raise Fault(Diagnostic(f"cannot import '{name}': {error.strerror}", span)) from None
    if path is None:
        raise _missing(name, span)
    if path.name.endswith(".c"):
        what = f"'{name}' is C, and a program cannot call functions of C"
        raise Fault(Diagnostic(what, span, 'write them as macros; #include "…" reads the types of a header'))
    if path.suffix != SUFFIX:
        hint = '#include "…" reads a header' if path.suffix == ".h" else None
        raise Fault(Diagnostic(f"'{name}' is not a program: its name does not end in {SUFFIX}", span, hint))
    return [path]


def _missing(name: str, span: Span) -> Fault:
    hint = "a path is relative to the importing file or the current directory; stdlib is built in"
    return Fault(Diagnostic(f"there is no file '{name}' to import", span, hint))


def _read(path: Path, span: Span) -> str:
    try:
        raw = content(str(path), MOST_BYTES + 1)
    except OSError as error:
        raise Fault(Diagnostic(f"cannot read {path}: {error.strerror}", span)) from None
    if len(raw) > MOST_BYTES:
        raise Fault(Diagnostic(f"{path} is longer than {MOST_BYTES} bytes", span))
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Fault(Diagnostic(f"{path} is not UTF-8", span, "is it a program's text?")) from None


def _identity(path: Path) -> str:
    return os.path.realpath(path)  # Path.resolve() raises for links in a circle
