from __future__ import annotations

import pytest

from tests.unit.backends.ftrace.records import format_text
from tracer.errors import TracerError
from tracer.kernel.uprobe_events.events import Fetch, FieldAt
from tracer.kernel.uprobe_events.format import parse_format

FETCHES = (Fetch("%di", "s32"), Fetch("+0(%si)", "string"))
TEXT = format_text(2326, FETCHES)


def test_a_format_file_is_read() -> None:
    format = parse_format(TEXT, FETCHES)
    assert format.id == 2326
    assert format.fields["f0"] == FieldAt(16, 4, True, False)
    assert format.fields["f1"] == FieldAt(20, 4, True, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "f0 is not s32"),
        (TEXT.replace("s32 f0", "s32 arg0"), "f0 is not s32"),
        (TEXT.replace("offset:16;\tsize:4", "offset:16;\tsize:8"), "f0 is not s32"),
        (TEXT.replace("offset:20", "offset:18"), "f1 is not string"),
        (TEXT.replace("__data_loc char[]", "char"), "f1 is not string"),
        (TEXT.replace("ID: 2326", "ID: 70000"), "no number"),
        (TEXT.replace("ID: 2326", ""), "no number"),
    ],
)
def test_another_layout_is_refused(text: str, reason: str) -> None:
    with pytest.raises(TracerError) as raised:
        parse_format(text, FETCHES)
    assert raised.value.message == f"this kernel lays out events in an unknown way: {reason}"
    assert raised.value.detail == text
