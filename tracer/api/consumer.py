"""A consumer takes what a trace gives, beside its iterator: a program's own object, or a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tracer.choices import RENDERERS
from tracer.errors import UsageError

if TYPE_CHECKING:
    from tracer.api.events import Event
    from tracer.render.notices import Notice


class Consumer:
    """The base class of what `Trace.add` takes. The methods are called in the order in which things come, one at a
    time, and not in the thread that entered the trace; here they do nothing. What comes meanwhile waits in the kernel's
    buffers. What one raises ends the trace, which raises it in turn.
    """

    def event(self, event: Event) -> None:
        """Something that the program says: see `tracer.events`."""

    def maps(self, maps: Mapping[str, Any]) -> None:
        """The maps at the end, and each time that somebody looks at `Trace.maps`."""

    def notice(self, notice: Notice) -> None:
        """Anything else: see `tracer.notices`."""

    def end(self) -> None:
        """Nothing more comes."""


class Stream(Protocol):
    """A file that takes bytes."""

    def write(self, data: bytes, /) -> object:
        """Takes some."""

    def flush(self) -> object:
        """No more comes for now."""


class Writer:
    """Writes to `file`, opened for bytes, what `tracer -f FORMAT` prints: "text", or "json" with one record a line. It
    is flushed when no more comes for now, and not closed.
    """

    def __init__(self, file: Stream, format: str = "json") -> None:
        if format not in RENDERERS:
            raise UsageError(f"no format {format}", f"there are {', '.join(RENDERERS)}")
        self.file = file
        self.format = format
