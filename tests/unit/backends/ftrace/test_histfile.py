from __future__ import annotations

import pytest

from tracer.backends.ftrace.read.hist_file import Table, parse
from tracer.errors import TracerError

TWO = """\
# event histogram
#
# trigger info: hist:keys=f1,f0.buckets=10:vals=hitcount,f3:sort=hitcount:size=128 [active]
#

{ f1: 18446744073709551615, f0: ~ 10-19 } hitcount:          1  f3: 18446744073709551614
{ f1:          3, f0: ~ 18446744073709551610-3 } hitcount:        212  f3:          0

Totals:
    Hits: 213
    Entries: 2
    Dropped: 7


# event histogram
#
# trigger info: hist:keys=common_type:vals=hitcount:sort=hitcount:size=128 if COMM == "a [b]" [paused]
#


Totals:
    Hits: 0
    Entries: 0
    Dropped: 0
"""


def test_each_trigger_has_a_table_with_its_rows_hits_and_drops() -> None:
    assert parse(TWO) == {
        "hist:keys=f1,f0.buckets=10:vals=hitcount,f3:sort=hitcount:size=128": Table(
            {((1 << 64) - 1, 10): (1, ((1 << 64) - 2,)), (3, (1 << 64) - 6): (212, (0,))}, 213, 7
        ),
        'hist:keys=common_type:vals=hitcount:sort=hitcount:size=128 if COMM == "a [b]"': Table({}, 0, 0),
    }


def test_a_file_without_triggers_has_no_tables() -> None:
    assert parse("") == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    Dropped: 7\n", ""),
        ("    Hits: 213\n", ""),
        ("f1:          3,", "f1: three,"),
        (" } hitcount:          1 ", " } count: 1"),
    ],
)
def test_a_file_of_another_form_is_an_error_and_never_a_wrong_number(old: str, new: str) -> None:
    with pytest.raises(TracerError, match="this kernel writes hist files in an unknown form"):
        parse(TWO.replace(old, new))
