"""`--stacks` and `tracer flame`: where documents of stacks go, and where everything else does then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tracer.cli.tracing.output import Output
from tracer.dataclass import dataclass, replace
from tracer.errors import UsageError
from tracer.render.renderer import Effects, Renderer, Sink
from tracer.render.stacks import LINES, document_of
from tracer.render.stacks.collect import is_of_stacks
from tracer.render.stacks.profiles import Page, Profile
from tracer.render.stacks.renderer import DocumentRenderer, FoldedRenderer

if TYPE_CHECKING:
    from tracer.lang.typed import Program
    from tracer.render.value_text import Symbolizer
    from tracer.tracing.loop import Controls

_TWO = "--diff compares two maps of stacks, or two files"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The document to make of maps of stacks: a format of `--stacks`, of these maps alone if any are named; with
    `compare` two of them compared. `title` and `unit` are the user's words for the page and for what is counted.
    """

    format: str
    maps: tuple[str, ...] = ()
    compare: bool = False
    title: str = ""
    unit: str = ""

    def check(self, program: Program) -> None:
        """Raises `UsageError` where the program has not the maps that are wanted."""
        there = [name for name, decl in program.maps.items() if is_of_stacks(decl)]
        if not there:
            raise UsageError(
                "the program has no map of stacks", "@[ustack] = count(); is one, and so is @[ustack] = sum(arg0);"
            )
        listed = ", ".join(there)
        for name in self.maps:
            if name not in there:
                raise UsageError(f"--map {name}: no such map of stacks", f"there is {listed}")
        if self.compare and (len(self.maps) or len(there)) != 2:
            raise UsageError(_TWO, f"name them with --map; there is {listed}")

    def chosen(self, files: Sequence[Sequence[Profile]], names: Sequence[str]) -> Sequence[Profile]:
        """The wanted maps of those that were read from files. Where files have maps of one name, the file's name goes
        before it. Raises `UsageError` where one is not there.
        """
        every = [profile.name for file in files for profile in file]
        for name in self.maps:
            if name not in every:
                raise UsageError(f"--map {name}: no such map of stacks", f"there is {', '.join(every)}")
        wanted = [
            replace(profile, name=f"{file_name} {profile.name}") if every.count(profile.name) > 1 else profile
            for file_name, file in zip(names, files, strict=True)
            for profile in self.of(file)
        ]
        if self.compare and len(wanted) != 2:
            raise UsageError(_TWO, f"name them with --map; there is {', '.join(profile.name for profile in wanted)}")
        return wanted

    def of(self, profiles: Sequence[Profile]) -> Sequence[Profile]:
        """The wanted maps, in the order in which they are named, with the unit."""
        kept = [
            profile
            for name in self.maps or ("",)
            for profile in profiles
            if not name or profile.name == name or profile.name.startswith(f"{name} (")
        ]
        # Beside sums of bytes, what is counted is no number of bytes.
        mixed = len({profile.unit for profile in kept}) > 1
        return [
            replace(profile, unit=self.unit) if self.unit and not (mixed and profile.unit == "count") else profile
            for profile in kept
        ]


def check_output(format: str, output: str | None) -> None:
    """Raises `UsageError` where a document would go to a terminal."""
    if format != LINES and output is None and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError(f"{format} is not for a terminal", "-o FILE writes it to a file")


def renderer_of_stacks(
    wanted: Wanted, beside: Callable[[], Sink], program: Program, names: Symbolizer | None, out: Output, quiet: bool,
    effects: Effects,
) -> Renderer:  # fmt: skip
    """The renderer for `--stacks`, which writes to `out`; the text beside a document goes where `beside` says."""
    if wanted == Wanted(LINES):
        return FoldedRenderer(program, names, out, quiet, effects)
    return _Document(program, names, beside(), quiet, effects, out, wanted)


def text_beside(on_stdout: bool, buffering: str, controls: Controls, stack: ExitStack, raw: bool) -> Sink:
    """The sink of the text beside a document: stdout, or where the document is `on_stdout` to stderr."""
    descriptor, name = (2, "stderr") if on_stdout else (1, "stdout")
    if (sys.stderr if on_stdout else sys.stdout) is None:
        return Nowhere()
    return stack.enter_context(Output(descriptor, name, buffering, controls, needed=False, raw=raw))


class Nowhere:
    """A stream that was closed before we began, whose descriptor may be any file by now; or text that is printed
    elsewhere.
    """

    def write(self, data: bytes, /) -> None:
        pass

    def flush(self) -> None:
        pass


class _Document(DocumentRenderer):
    """Writes the document at the end."""

    def __init__(
        self, program: Program, names: Symbolizer | None, text: Sink, quiet: bool, effects: Effects, out: Output,
        wanted: Wanted,
    ) -> None:  # fmt: skip
        super().__init__(program, names, text, quiet, effects)
        self._text = text
        self._out = out
        self._wanted = wanted
        # Now, since what is imported when all is counted could still fail.
        self._document: Callable[[Sequence[Profile], Page], bytes] = document_of(wanted.format)
        self._begun = time.time_ns()

    def finish(self) -> None:
        wanted, compare = self._wanted, self._wanted.compare
        profiles = list(wanted.of(self.profiles))
        if compare and len(profiles) < 2:
            profiles = self._with_empty(profiles)
        elif compare and len(profiles) > 2:
            self._effects.say(f"tracer: {_TWO}: they were printed {len(profiles)} times, so each is shown\n".encode())
            compare = False
        source = self._program.source
        title = wanted.title or (source.name if source.name != "-e" else " ".join(source.text.split()))
        self._out.write(self._document(profiles, Page(title, compare, self._begun)))
        if isinstance(self._text, Output):
            self._text.finish()

    def _with_empty(self, profiles: Sequence[Profile]) -> list[Profile]:
        """Two to compare: a map that held nothing was not printed."""
        maps = self._program.maps
        names = self._wanted.maps or [name for name in sorted(maps) if is_of_stacks(maps[name])]
        there = {profile.name: profile for profile in profiles}
        return [there.get(name) or Profile(name, self._wanted.unit or "count", ()) for name in names]
