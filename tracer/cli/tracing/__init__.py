"""A trace as the command line runs it: signals, results on stdout, talk on stderr, and the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tracer.choices import STACKS
from tracer.dataclass import dataclass

if TYPE_CHECKING:
    from tracer.errors import Diagnostic, ProgramError
    from tracer.pipeline import Compiled
    from tracer.plan.model import Plan
    from tracer.render.notices import Consumer, Notice
    from tracer.render.renderer import Renderer
    from tracer.tracing import Prepared


@dataclass(frozen=True, slots=True)
class Printing:
    """The way in which results are printed, and the place: in `format`, maps of stacks as `stacks` says
    (`stacks.Wanted`, or None), to the file `output`, or to stdout; and in the formats of `also` to its files.
    `failures`: what could not be read is told with the results, too. `warnings` are printed, what warnf() says too.
    `raw`: a terminal gets values as they are. `status`: a `StatusLine` of the terminal, or None. `special`: makes
    what prints in place of the format's renderer, and joins it with the trace (`trace.Special`), or None. `text_as`
    makes the renderer of text, and `results_as` that of each of its formats, where it is another. `as_wanted`: what is
    said in the place of a notice, or None.
    """

    format: str = "text"
    output: str | None = None
    also: Sequence[tuple[str, str]] = ()
    buffering: str = "line"
    stacks: Any = None
    failures: bool = False
    warnings: bool = True
    raw: bool = False
    status: Any = None
    special: Any = None
    text_as: Callable[..., Renderer] | None = None
    results_as: Mapping[str, Callable[..., Renderer]] | None = None
    as_wanted: Callable[[Notice], Notice | None] | None = None

    def renderer(self, format: str) -> Callable[..., Renderer]:
        """What makes the renderer of a format."""
        if self.results_as is not None and format in self.results_as:
            return self.results_as[format]
        if self.text_as is not None and format == "text":
            return self.text_as
        from tracer.render import renderer_of

        return renderer_of(format)

    def set(self, renderer: Renderer) -> Consumer:
        """The renderer, told what it prints."""
        renderer.tells_failures, renderer.warns = self.failures, self.warnings
        return renderer


def compiled(prepared: Prepared, printing: Printing, stack: ExitStack, need_usable: bool = True) -> Compiled:
    """The compiled request; its warnings are said. Until the `stack` closes, it is said who holds us up."""

    def planned(plan: Plan, warnings: Sequence[Diagnostic]) -> None:
        if printing.stacks is not None:
            printing.stacks.check(plan.program)
        for format, _ in printing.also:
            if format in STACKS:
                from tracer.cli.tracing.stacks import Wanted

                Wanted(format).check(plan.program)
        quiet = prepared.request.quiet
        if said := [warning for warning in warnings if printing.warnings and (warning.lacking or not quiet)]:
            from tracer.cli.errors import diagnostics_text

            sys.stderr.write(diagnostics_text(plan.program.source, said))
        from tracer.cli.tracing.signals import looked_after

        stack.enter_context(looked_after(plan))

    def once_mapped(nothing: ProgramError) -> tuple[Plan, list[Diagnostic]]:
        from tracer.cli.tracing.signals import Signals
        from tracer.tracing.awaiting import planned_once_mapped
        from tracer.tracing.loop import Controls

        with Controls() as controls, Signals(controls):
            return planned_once_mapped(prepared, nothing, say, controls)

    def say(line: str) -> None:
        from tracer.errors import printable

        if not prepared.request.quiet:
            sys.stderr.write(f"tracer: {printable(line)}\n")
            sys.stderr.flush()

    return prepared.compile(planned, need_usable, once_mapped if need_usable else None)
