"""`--stacks`: where documents of stacks go, and where everything else does then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tracer.cli.tracing.output import Output
from tracer.errors import UsageError
from tracer.render.renderer import Effects, Renderer, Sink
from tracer.render.stacks import LINES, document_of
from tracer.render.stacks.collect import is_of_stacks
from tracer.render.stacks.model import Page, Profile
from tracer.render.stacks.renderer import DocumentRenderer, FoldedRenderer

if TYPE_CHECKING:
    from tracer.lang.typed import Program
    from tracer.render.values import Symbolizer
    from tracer.tracing import Controls


def check_output(format: str, output: str | None) -> None:
    """Raises `UsageError` where a document would go to a terminal."""
    if format != LINES and output is None and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError(f"{format} is not for a terminal", "-o FILE writes it to a file")


def check_maps(program: Program) -> None:
    """Raises `UsageError` where there is nothing for `--stacks` to show."""
    if not any(map(is_of_stacks, program.maps.values())):
        raise UsageError(
            "--stacks: the program has no map of stacks", "@[ustack] = count(); or @[comm, ustack] = sum(arg0);"
        )


def renderer_of_stacks(
    format: str, on_stdout: bool, buffering: str, controls: Controls, stack: ExitStack,
    program: Program, names: Symbolizer, out: Output, quiet: bool, effects: Effects,
) -> Renderer:  # fmt: skip
    """The renderer for `--stacks`, which writes to `out`. The text beside a document goes to stdout, or where the
    document is `on_stdout` to stderr.
    """
    if format == LINES:
        return FoldedRenderer(program, names, out, quiet, effects)
    descriptor, name = (2, "stderr") if on_stdout else (1, "stdout")
    if (sys.stderr if on_stdout else sys.stdout) is None:
        text: Sink = _Nowhere()
    else:
        text = stack.enter_context(Output(descriptor, name, buffering, controls, needed=False))
    title = program.source.name if program.source.name != "-e" else " ".join(program.source.text.split())
    page = Page(title, time_ns=time.time_ns())
    return _Document(program, names, text, quiet, effects, out, format, page)


class _Nowhere:
    """A stream that was closed before we began: its descriptor may be any file by now."""

    def write(self, data: bytes, /) -> None:
        pass

    def flush(self) -> None:
        pass


class _Document(DocumentRenderer):
    """Writes the document at the end."""

    def __init__(
        self, program: Program, names: Symbolizer, text: Sink, quiet: bool, effects: Effects, out: Output,
        format: str, page: Page,
    ) -> None:  # fmt: skip
        super().__init__(program, names, text, quiet, effects)
        self._text = text
        self._out = out
        self._page = page
        self._document: Callable[[Sequence[Profile], Page], bytes] = document_of(format)

    def finish(self) -> None:
        """See `Renderer`."""
        self._out.write(self._document(self.profiles, self._page))
        if isinstance(self._text, Output):
            self._text.finish()
