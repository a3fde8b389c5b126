"""A trace of the command line: where its results and words go, and what signals mean."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from tracer.cli.tracing.output import Output, Talk, Words
from tracer.cli.tracing.signals import Signals
from tracer.tracing.loop import Controls
from tracer.tracing.trace import Trace

_COLLECTIONS = (20_000, 50, 50)
"""For gc.set_threshold: an event makes some objects and no cycle, and looking for cycles after each 700 objects, as
Python does by itself, took a tenth of the time of a million events.
"""

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracer.cli.tracing import Printing
    from tracer.lang.typed import Program
    from tracer.render.notices import Consumer
    from tracer.render.renderer import Effects as RenderedEffects, Renderer
    from tracer.render.value_text import Symbolizer
    from tracer.tracing import Prepared
    from tracer.tracing.effects import Effects
    from tracer.tracing.names import Names


class Special(Protocol):
    """Prints results in a way that is no format, as a flow or a live table."""

    def made(
        self, program: Program, names: Symbolizer | None, out: Output, quiet: bool, effects: RenderedEffects, /
    ) -> Renderer:
        """The renderer."""

    def join(self, talk: Talk, controls: Controls, lost: Callable[[], int], stack: ExitStack, /) -> None:
        """Joins it with the trace: `lost` tells how much was lost so far, and the `stack` closes when all is done."""


def trace(prepared: Prepared, printing: Printing) -> int:
    """Runs what has been compiled to its end; returns the exit status."""
    request, program = prepared.request, prepared.compiled.plan.program
    with ExitStack() as stack:
        controls = stack.enter_context(Controls())
        words = stack.enter_context(Words(controls, printing.raw))
        outs = [
            stack.enter_context(Output.of_results(path, printing.buffering, controls, printing.raw, stack))
            for path in (printing.output, *(path for _, path in printing.also))
        ]
        status = printing.status
        talk = Talk(words, outs, request.quiet, request.verbose, printing.warnings, status)
        talk.as_wanted = printing.as_wanted or talk.as_wanted

        def results(names: Names | None, effects: Effects) -> Consumer:
            if printing.special is not None:
                consumer = printing.set(printing.special.made(program, names, outs[0], request.quiet, effects))
                printing.special.join(talk, controls, lambda: whole.so_far()[1], stack)
            elif printing.stacks is None and not printing.also:
                renderer = printing.renderer(printing.format)(program, names, outs[0], request.quiet, effects)
                consumer = printing.set(renderer)
            else:
                from tracer.cli.tracing.several import consumer_of

                consumer = consumer_of(printing, outs, program, names, request.quiet, effects, controls, stack)
            gc.freeze()  # what is there now stays
            gc.set_threshold(*_COLLECTIONS)
            gc.enable()
            return consumer

        stack.enter_context(Signals(controls, last=True))
        whole = Trace(prepared, controls, talk, words, results)
        if status is not None:
            words.beside(status)
            outs[0].status = status
            status.of(whole, request.duration_s)
            stack.callback(status.end)
        outcome = whole.run()
        talk.end()
        return outcome.code or (1 if talk.left_out else 0)
