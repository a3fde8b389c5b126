"""A live table: rates since the last look, totals since the beginning; keys; a screen that is left as it was."""

from __future__ import annotations

import io

from tests.typed_ir import map_of, program
from tracer.lang.types import StringType
from tracer.render.live.renderer import COUNTS, LiveTable, Screen
from tracer.render.live.table import Table
from tracer.results.store import LocalMaps

COUNTED = program([], [map_of(COUNTS, "count", StringType(16))])


def shown(table: Table, width: int = 80, height: int = 20) -> list[str]:
    return [line.decode() for line in table.lines(width, height)]


def test_rates_are_of_the_last_look_and_totals_of_all() -> None:
    table = Table(values=False)
    table.look({b"a": 10, b"b": 30}, {}, {}, 2.0)
    assert shown(table) == [
        "    rate/s*      total  key", "         15         30  b", "          5         10  a"
    ]  # fmt: skip
    table.look({b"a": 3}, {}, {}, 2.0)
    assert shown(table)[1:] == ["        1.5         13  a", "          0         30  b"]
    table.sort_by_next()
    assert shown(table) == [
        "     rate/s     total*  key", "          0         30  b", "        1.5         13  a"
    ]  # fmt: skip
    table.sort_by_next()
    assert [line[-1] for line in shown(table)[1:]] == ["a", "b"]


def test_values_have_a_sum_and_percentiles() -> None:
    table = Table(values=True)
    table.look({b"a": 2}, {b"a": 500}, {b"a": {"p50": 100, "p99": 400, "max": 401}}, 0.5)
    assert shown(table) == [
        "     rate/s      total     sum/s*        p50        p99        max  key",
        "          4          2       1000        100        400        401  a",
    ]


def test_a_frozen_table_stays_and_counts_on_and_a_filter_hides_rows() -> None:
    table = Table(values=False)
    table.look({b"read": 1, b"write": 2}, {}, {}, 1.0)
    table.freeze()
    table.look({b"read": 5}, {}, {}, 1.0)
    assert shown(table)[1:] == ["          2          2  write", "          1          1  read"]
    table.freeze()
    assert shown(table)[1:] == ["          5          6  read", "          0          2  write"]
    table.filter = b"wri"
    assert shown(table)[1:] == ["          0          2  write"]


def test_lines_are_no_longer_and_no_more_than_there_is_room_and_stacks_take_one() -> None:
    table = Table(values=False)
    table.look({b"\n        inner+1\n        main+2\n": 9, b"x": 1}, {}, {}, 1.0)
    assert shown(table, 40, 2) == ["    rate/s*      total  key", "          9          9  inner+1 main+2"]
    assert shown(table, 28, 2)[1] == "          9          9  inne"


class Typist:
    """A terminal whose user types `keys`, one lot at each look."""

    def __init__(self, *keys: bytes) -> None:
        self.keys, self.size, self.quits = list(keys), (50, 4), 0

    def screen(self) -> Screen:
        return Screen(lambda: self.size, lambda: self.keys.pop(0) if self.keys else b"", self.quit)

    def quit(self) -> None:
        self.quits += 1


def test_keys_sort_filter_freeze_and_quit_and_the_screen_is_left() -> None:
    typist, out = Typist(b"", b"s", b"/b\x7f", b"a\r", b"f", b"", b"q"), io.BytesIO()
    table = LiveTable(False, 10, COUNTED, None, out)
    table.screen = typist.screen()
    maps = LocalMaps(COUNTED)
    for key, count in ((b"ab", 4), (b"b", 9)):
        for _ in range(count):
            maps.aggregate(COUNTS, (key,), "count", 0)
    table.print_map(maps.snapshot(COUNTS), 0, 0)
    frames = []
    while typist.keys:
        table.flush()
        frames.append(out.getvalue())
        out.seek(out.truncate(0))
        typist.size = (50, 4) if len(frames) < 6 else (20, 3)
    first, second, typing, filtered, frozen, none, resized = frames
    assert first.startswith(b"\x1b[?1049h\x1b[?25l\x1b[H    rate/s*      total  key\x1b[K\r\n")
    assert first.count(b"\r\n") == 3 and b"9  b\x1b[K" in first
    assert b"total*" in second and typing.endswith(b"\r\nfilter: \x1b[K")
    assert b"9  b\x1b" not in filtered and b"4  ab\x1b" in filtered and filtered.endswith(b"/ filter  /a\x1b[K")
    assert frozen.endswith(b"/a  FROZEN\x1b[K") and none == b""
    assert resized.count(b"\r\n") == 2 and typist.quits == 1
    table.finish()
    table.leave()
    assert out.getvalue() == b"\x1b[?25h\x1b[?1049l%b\n" % b"\n".join(table.table.lines(20, 11))


def test_without_a_terminal_each_look_is_a_table_with_its_time() -> None:
    out = io.BytesIO()
    table = LiveTable(False, 1, COUNTED, None, out)
    maps = LocalMaps(COUNTED)
    maps.aggregate(COUNTS, (b"a",), "count", 0)
    maps.aggregate(COUNTS, (b"b",), "count", 0)
    table.print_time(b"12:00:00\n")
    table.print_map(maps.snapshot(COUNTS), 0, 0)
    table.flush()
    lines = out.getvalue().decode().splitlines()
    assert len(lines[0]) == 8 and lines[1] == "    rate/s*      total  key" and lines[2].endswith("          1  a")
    assert lines[3:] == [""]
