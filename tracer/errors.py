"""Errors and diagnostics: values until `cli` renders them under the user's own text.

A stage that finds something wrong in the user's program raises `ProgramError` with one `Diagnostic` per fault; every
other failure is a `TracerError`. Each class carries the exit status it ends in; `cli` catches `TracerError` once.
"""

from __future__ import annotations

import errno
from _thread import _local
from collections.abc import Callable, Iterable, Sequence

from tracer.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A program's text and where it came from (`-e` or a file's path). `included` are headers that the command line
    puts before it, `include_paths` where it looks for headers. `parts` are the files that it imports: where the text of
    each begins in `text`, and its name.
    """

    text: str
    name: str = "-e"
    included: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    parts: tuple[tuple[int, str], ...] = ()

    def part(self, offset: int) -> tuple[int, str]:
        """The offset at which the file of a character offset into `text` begins, and its name."""
        return max((part for part in self.parts if part[0] <= offset), default=(0, self.name))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in its file, both from 1, of a character offset into `text`."""
        before = self.text[self.part(offset)[0] : offset]
        return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets into a `Source`."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The range from the start of this span to the end of `other`."""
        return Span(self.start, other.end)

    def moved(self, by: int) -> Span:
        """The same range so many characters further on; that of no place stays."""
        return self if self == NOWHERE else Span(self.start + by, self.end + by)


NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: what is wrong, where in the user's text, and how to mend it.

    `message` names the construct and the reason, in lower case and without a full stop; `hint` is the remedy.
    `lacking`: a warning that the answer will be incomplete, to be said with -q too.
    """

    message: str
    span: Span = NOWHERE
    hint: str | None = None
    severity: str = "error"
    lacking: bool = False


WANTING = {
    errno.EMFILE: "raise the limit on descriptors: ulimit -n 65536",
    errno.ENOMEM: "ulimit -v or the control group's limit may be the reason",
}
"""The remedy where something is wanting, by the number of the error."""


class TracerError(Exception):
    """A failure with a message, a remedy and an exit status; never shown as a Python traceback."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None, detail: str | None = None) -> None:
        """`detail` is for `-v` alone: a compiler's or the verifier's log."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail
        self.missing: tuple[str, ...] = ()
        """What was told before (see `tell`), where nobody else hears it: it may be the reason."""


class UsageError(TracerError):
    """A wrong command line."""

    exit_code = 2


class ProgramError(TracerError):
    """The user's program is wrong, or asks for what cannot be done: the diagnostics stand under its text."""

    exit_code = 2
    awaits_files = False
    """Whether it can be carried out once a process maps a file that it means."""

    def __init__(
        self, source: Source, diagnostics: Iterable[Diagnostic], detail: str | None = None, exit_code: int = 2
    ) -> None:
        self.source = source
        self.diagnostics = tuple(diagnostics)
        self.exit_code = exit_code
        first = self.diagnostics[0]
        super().__init__(first.message, first.hint, detail)


class NoFileYet(ProgramError):
    """No file is there that the attach points could mean, but processes may map some."""

    awaits_files = True


class NothingInFiles(ProgramError):
    """The files that are there have nothing of what the attach points mean."""


class Fault(Exception):
    """One fault in the text; the parser turns it into a diagnostic and goes on."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def _told(line: str) -> None:
    pass


def _asked() -> None:
    pass


class _OfThread(_local):
    """The listener of each thread, and the one that may ask for the end: of several traces at once each has its own."""

    tell: Callable[[str], object] = staticmethod(_told)
    asked: Callable[[], object] = staticmethod(_asked)


_of_thread = _OfThread()


def tell(line: str) -> None:
    """Says at once what is waited for, and what is missing for which reason, to whom this thread does that for."""
    _of_thread.tell(line)


def asked_to_end() -> object:
    """Changes when the end is asked for of what this thread does, which no exception says during a trace."""
    return _of_thread.asked()


class Heard:
    """A context in which `hear` is what `tell` of this thread goes to, and `asked` what `asked_to_end` gives; None
    leaves either as it was.
    """

    def __init__(self, hear: Callable[[str], object] | None, asked: Callable[[], object] | None = None) -> None:
        self._hear = hear
        self._asked = asked

    def __enter__(self) -> Heard:
        self._before = _of_thread.tell, _of_thread.asked
        _of_thread.tell, _of_thread.asked = self._hear or self._before[0], self._asked or self._before[1]
        return self

    def __exit__(self, *error: object) -> None:
        _of_thread.tell, _of_thread.asked = self._before


def printable(text: str) -> str:
    """The text with control characters and broken encodings escaped, so that a message stays one line."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    if 0xDC80 <= ord(character) <= 0xDCFF:  # how a byte that is not UTF-8 was decoded
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


class Interrupted(BaseException):
    """Ctrl-C where no trace takes it yet; no KeyboardInterrupt, of which typer makes status 130 without a word."""


def counted(count: int, thing: str) -> str:
    """`1 event`, `2 events`; a negative number is not known."""
    if count < 0:
        return f"some {thing}s, which could not be counted here,"
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def and_more(names: Iterable[str], count: int) -> str:
    """Some names of so many, with the number of the rest: `a, b, c and 2 more`."""
    shown = [*names]
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")


class NoFile(TracerError):
    """No file matches a pattern of paths."""


class NothingThere(TracerError):
    """The file has no such probe or function; another of several files may have it."""


class NoSuchLine(NothingThere):
    """The file knows the source file, but not that line of it."""


def fail_alike(failures: Sequence[TracerError], searches: int) -> bool:
    """Whether none of so many files can be searched, for one reason: those of a 32-bit process."""
    reasons = [failure.message.partition(": ")[2] for failure in failures if not isinstance(failure, NothingThere)]
    return len(reasons) == searches and len({*reasons}) == 1
