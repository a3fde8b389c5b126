"""A trace of the command line: where its results and words go, and what signals mean."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tracer.cli.tracing.output import Output, Talk, Words
from tracer.cli.tracing.signals import Signals
from tracer.render import renderer_of
from tracer.tracing.loop import Controls
from tracer.tracing.trace import Trace

_COLLECTIONS = (20_000, 50, 50)
"""For gc.set_threshold: an event makes some objects and no cycle, and looking for cycles after each 700 objects, as
Python does by itself, took a tenth of the time of a million events.
"""

if TYPE_CHECKING:
    from tracer.cli.tracing import Printing
    from tracer.render.renderer import Renderer
    from tracer.tracing import Prepared
    from tracer.tracing.effects import Effects
    from tracer.tracing.names import Names


def trace(prepared: Prepared, printing: Printing) -> int:
    """Runs what has been compiled to its end; returns the exit status."""
    request, program = prepared.request, prepared.compiled.plan.program
    with ExitStack() as stack:
        controls = stack.enter_context(Controls())
        words = stack.enter_context(Words(controls, printing.raw))
        out = stack.enter_context(Output.of_results(printing.output, printing.buffering, controls, printing.raw, stack))
        talk = Talk(words, out, request.quiet, request.verbose, printing.warnings)

        def results(names: Names | None, effects: Effects) -> Renderer:
            arguments = program, names, out, request.quiet, effects
            if printing.stacks is None:
                renderer = renderer_of(printing.format)(*arguments)
            else:
                from tracer.cli.tracing.stacks import renderer_of_stacks

                to_stdout = printing.output is None
                renderer = renderer_of_stacks(
                    printing.stacks, to_stdout, printing.buffering, controls, stack, *arguments
                )
            renderer.tells_failures, renderer.warns = printing.failures, printing.warnings
            gc.freeze()  # what is there now stays
            gc.set_threshold(*_COLLECTIONS)
            gc.enable()
            return renderer

        stack.enter_context(Signals(controls, last=True))
        outcome = Trace(prepared, controls, talk, words, results).run()
        talk.end()
        return outcome.code or (1 if out.left_out else 0)
