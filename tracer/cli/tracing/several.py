"""Results that are more than one renderer's: documents of stacks, and several outputs at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from tracer.choices import STACKS
from tracer.cli.tracing.stacks import Nowhere, Wanted, renderer_of_stacks, text_beside
from tracer.tracing.several import Once, Several

if TYPE_CHECKING:
    from tracer.cli.tracing import Printing
    from tracer.cli.tracing.output import Output
    from tracer.lang.typed import Program
    from tracer.render.notices import Consumer
    from tracer.render.renderer import Effects
    from tracer.render.value_text import Symbolizer
    from tracer.tracing.loop import Controls


def consumer_of(
    printing: Printing, outs: Sequence[Output], program: Program, names: Symbolizer | None, quiet: bool,
    effects: Effects, controls: Controls, stack: ExitStack,
) -> Consumer:  # fmt: skip
    """The consumer that writes to `outs`, the first of which is that of `printing`, and the others those that it names
    also.
    """

    def consumer(out: Output, format: str, wanted: Wanted | None, writer_effects: Effects) -> Consumer:
        if wanted is None:
            return printing.set(printing.renderer(format)(program, names, out, quiet, writer_effects))
        on_stdout = printing.output is None
        text = partial(text_beside, on_stdout, printing.buffering, controls, stack, printing.raw)
        beside = text if out is outs[0] else Nowhere
        return printing.set(renderer_of_stacks(wanted, beside, program, names, out, quiet, writer_effects))

    if not printing.also:
        return consumer(outs[0], printing.format, printing.stacks, effects)
    once = Once(effects)
    consumers = [consumer(outs[0], printing.format, printing.stacks, once.of_each())]
    for out, (format, _) in zip(outs[1:], printing.also, strict=True):
        consumers.append(consumer(out, format, Wanted(format) if format in STACKS else None, once.of_each()))
    return Several(consumers, once)
