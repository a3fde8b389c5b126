"""The layout of an event: its `format` file in tracefs, parsed."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.errors import TracerError
from tracer.kernel.uprobe_events.events import EventFormat, Fetch, FieldAt

_REPORT = "--backend bcc reads none; please report it with what -v adds"


def parse_format(text: str, fetches: Sequence[Fetch]) -> EventFormat:
    """Reads `events/GROUP/EVENT/format`: `ID: 12`, `field:u32 f0; offset:16; size:4; signed:0;`.

    Raises `TracerError` where it is not what the event's fetch arguments let expect: then nothing can be decoded.
    """
    number = -1
    fields: dict[str, FieldAt] = {}
    for line in text.splitlines():
        if line.startswith("ID:"):
            number = int(line[3:])
        elif line.startswith("\tfield:"):
            parts = dict(part.strip().split(":", 1) for part in line.split(";") if ":" in part)
            declaration = parts["field"]
            fields[declaration.split()[-1].partition("[")[0]] = FieldAt(
                int(parts["offset"]), int(parts["size"]), parts["signed"] == "1",
                declaration.startswith(("__data_loc", "__rel_loc")),
            )
    fetched: dict[str, FieldAt] = {}
    end = 2  # the event's number, which is the first field of all
    for index, fetch in enumerate(fetches):
        field = fields.get(fetch.name(index)) if not fetch.beside else _behind(fields)
        if field is None or (field.size, field.dynamic) != (fetch.size, fetch.is_dynamic) or field.offset < end:
            message = f"this kernel lays out events in an unknown way: f{index} is not {fetch.type}"
            raise TracerError(message, _REPORT, text)
        end = field.offset + field.size
        fetched[f"f{index}"] = field
    if not 0 < number < 1 << 16:
        raise TracerError("this kernel lays out events in an unknown way: no number", _REPORT, text)
    return EventFormat(number, fields | fetched)


def _behind(fields: dict[str, FieldAt]) -> FieldAt:
    """The first word behind the raw data of a sample, which with the 4 bytes of its size fills words of 8."""
    size = max(field.offset + field.size for field in fields.values())
    return FieldAt((size + 4 + 7) // 8 * 8 - 4, 8, False, False)
