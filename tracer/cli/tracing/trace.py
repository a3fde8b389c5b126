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
    from tracer.render.notices import Consumer
    from tracer.tracing import Prepared
    from tracer.tracing.effects import Effects
    from tracer.tracing.names import Names


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

        def results(names: Names | None, effects: Effects) -> Consumer:
            if printing.flow is not None:
                flow = printing.flow(program, names, outs[0], request.quiet, effects)
                flow.lost_so_far, talk.as_wanted = lambda: whole.so_far()[1], flow.as_wanted
                consumer = printing.set(flow)
            elif printing.stacks is None and not printing.also:
                renderer = renderer_of(printing.format)(program, names, outs[0], request.quiet, effects)
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
