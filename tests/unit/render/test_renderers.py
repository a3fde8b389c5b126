from __future__ import annotations

import io
import json
import re
import time

import pytest

from tests.typed_ir import N, arg, clause, map_of, num, program, str_of, text
from tracer.errors import Source
from tracer.lang import typed
from tracer.lang.analyse import analyse
from tracer.lang.syntax.parser import parse
from tracer.lang.types import INT64, UINT64, StringType
from tracer.render.json import JsonRenderer
from tracer.render.loss import loss_messages
from tracer.render.renderer import Renderer
from tracer.render.text import TextRenderer
from tracer.results.events import Loss, MapEvent, PrintfEvent, TimeEvent, ValueEvent
from tracer.results.store import LocalMaps
from tracer.steps.lower import lower
from tracer.steps.python.compile import compile_clause
from tracer.steps.python.runtime import Runtime

PRINTF = typed.Printf(N, 0, (arg(0), str_of(arg(1))))
PROGRAM = program(
    [clause([typed.If(N, num(1), (), (typed.While(N, num(1), (PRINTF,)),)), typed.Time(N, 1)])],
    [map_of("@b", "count", UINT64), map_of("@a", "count")],
    ["%d %s\n", "%H:%M:%S\n"],
    [INT64],
)


def test_formats_are_found_wherever_printf_stands() -> None:
    out = io.BytesIO()
    TextRenderer(PROGRAM, None, out).event(PrintfEvent(0, (1, b"tea")), LocalMaps(PROGRAM))
    assert out.getvalue() == b"1 tea\n"


def test_one_format_with_two_lists_of_types_is_a_mistake() -> None:
    other = typed.Printf(N, 0, (arg(0), arg(0)))
    with pytest.raises(ValueError, match="format 0"):
        TextRenderer(program([clause([PRINTF, other])], formats=["%d %s"]), None, io.BytesIO())


def test_the_same_text_with_other_types_is_another_format() -> None:
    source = Source('BEGIN { printf("%s\\n", "a"); printf("%s\\n", true); printf("%s\\n", "b"); }')
    typed_program = analyse(parse(source), {})
    out = io.BytesIO()
    renderer = TextRenderer(typed_program, None, out)
    store = LocalMaps(typed_program)
    runtime = Runtime(store, lambda event: renderer.event(event, store))
    clause = typed_program.clauses[0]
    compile_clause(typed_program, clause, lower(typed_program, clause), None, runtime)(())
    assert out.getvalue() == b"a\ntrue\nb\n"
    assert len(typed_program.formats) == 2


def test_text_says_nothing_of_what_is_attached_and_json_does() -> None:
    text_out, json_out = io.BytesIO(), io.BytesIO()
    TextRenderer(PROGRAM, None, text_out).attached(3)
    JsonRenderer(PROGRAM, None, json_out).attached(3)
    assert text_out.getvalue() == b""
    assert json_out.getvalue() == b'{"type": "attached_probes", "count": 3, "data": {"probes": 3}}\n'


def test_lost_events_are_a_line_of_json() -> None:
    out = io.BytesIO()
    renderer = JsonRenderer(PROGRAM, None, out)
    renderer.lost(Loss(truncated=5))
    renderer.lost(Loss(events=7))
    assert out.getvalue() == b'{"type": "lost_events", "count": 7, "data": {"events": 7}}\n'


def test_what_helpers_refused_is_a_line_of_json_where_it_is_wanted() -> None:
    out = io.BytesIO()
    renderer = JsonRenderer(PROGRAM, None, out)
    renderer.lost(Loss(unreadable=3, keys=2))
    assert out.getvalue() == b""
    renderer.tells_failures = True
    renderer.lost(Loss(truncated=1))
    renderer.lost(Loss(unreadable=3, keys=2))
    assert list(map(json.loads, out.getvalue().splitlines())) == [
        {"type": "helper_error", "msg": message, "helper": helper, "retcode": code, "count": count}
        for message, helper, code, count in (
            ("Bad address", "probe_read_user", -14, 3),
            ("Argument list too long", "map_update_elem", -7, 2),
        )
    ]


@pytest.mark.parametrize(("number", "said"), [(3, b"3"), (-1, b"null")])
def test_lost_returns_are_a_line_of_json(number: int, said: bytes) -> None:
    out = io.BytesIO()
    JsonRenderer(PROGRAM, None, out).lost(Loss(returns=number))
    assert out.getvalue() == b'{"type": "lost_returns", "count": %b, "data": {"returns": %b}}\n' % (said, said)


def test_a_time_is_printed_when_it_is_handled() -> None:
    text_out, json_out = io.BytesIO(), io.BytesIO()
    TextRenderer(PROGRAM, None, text_out).event(TimeEvent(1), LocalMaps(PROGRAM))
    JsonRenderer(PROGRAM, None, json_out).event(TimeEvent(1), LocalMaps(PROGRAM))
    assert re.fullmatch(rb"\d\d:\d\d:\d\d\n", text_out.getvalue())
    line = json.loads(json_out.getvalue())
    assert line["type"] == "time" and re.fullmatch(r"\d\d:\d\d:\d\d\n", line["data"])


def test_at_the_end_maps_print_by_name_and_empty_ones_do_not() -> None:
    store = LocalMaps(PROGRAM)
    store.aggregate("@b", (1,), "count", 0)
    out = io.BytesIO()
    renderer = TextRenderer(PROGRAM, None, out)
    renderer.maps([store.snapshot("@b"), store.snapshot("@a")])
    renderer.event(MapEvent("@a", 0, 0), store)
    assert out.getvalue() == b"\n\n@b[1]: 1\n@a: 0\n"
    store.aggregate("@a", (), "count", 0)
    renderer.maps([store.snapshot("@b"), store.snapshot("@a")])
    assert out.getvalue() == b"\n\n@b[1]: 1\n@a: 0\n\n\n@a: 1\n@b[1]: 1\n"


def test_a_value_is_a_line() -> None:
    out = io.BytesIO()
    TextRenderer(PROGRAM, None, out).event(ValueEvent(0, -5), LocalMaps(PROGRAM))
    JsonRenderer(PROGRAM, None, out).event(ValueEvent(0, -5), LocalMaps(PROGRAM))
    assert out.getvalue() == b'-5\n{"type": "value", "data": -5}\n'


def test_a_hundred_thousand_printf_events_take_a_fraction_of_a_second() -> None:
    store = LocalMaps(PROGRAM)
    for renderer_type in (TextRenderer, JsonRenderer):
        with open("/dev/null", "wb") as null:
            renderer = renderer_type(PROGRAM, None, null)
            event = PrintfEvent(0, (12345, b"coffee beans"))

            def seconds(renderer: Renderer = renderer, event: PrintfEvent = event) -> float:
                start = time.process_time()
                for _ in range(100_000):
                    renderer.event(event, store)
                return time.process_time() - start

            # Of three: what else runs on the processor, or a collection, may slow one down.
            assert any(seconds() < 0.6 for _ in range(3))


def test_each_cause_of_loss_is_said_with_its_count_and_remedy() -> None:
    one = program([clause([])], config=typed.Config(max_strlen=64, max_map_keys=10))
    assert loss_messages(Loss(), one) == []
    assert loss_messages(Loss(1, 2, 3, 4, 5, 6, 7), one) == [
        "1 event lost: the buffer between kernel and tracer was full, so output and maps that follow from it are "
        "incomplete; print less in the probe, or count there",
        "2 hits left out: an argument or string could not be read there; "
        "its memory was not mapped, has to come from another process or machine, or holds no such value",
        "7 hits left out: the kernel gives the strings of a hit one page, and a long one was cut there "
        "or left no room for another; give strings a size, as in str(arg0, 1024), or --backend bcc",
        "3 strings cut to 63 bytes; raise max_strlen, now 64",
        "4 map updates dropped: a map was full, and new keys did not fit; write config = { max_map_keys = 40 }, it is"
        " 10 now, or delete() keys that are done with",
        "5 hits ran out of rounds: all loops of a hit have 131072 together, those of BEGIN, END or an interval 4194304;"
        " split the work",
        "6 stacks could not be walked: too many new ones came at once, or the thread has none",
    ]
    nested = " not seen: calls were nested deeper than the 64 whose returns the kernel follows"
    for number, count in ((1, "1 return"), (2, "2 returns"), (-1, "some returns, which could not be counted here,")):
        (message,) = loss_messages(Loss(returns=number), one)
        assert message.startswith(count + nested)


def test_constant_text_prints() -> None:
    one = program([clause([typed.Printf(N, 0, (text(b"x"),)), typed.Printf(N, 1, ())])], formats=["%3s", "done\n"])
    out = io.BytesIO()
    renderer = TextRenderer(one, None, out)
    renderer.event(PrintfEvent(0, (b"x",)), LocalMaps(one))
    renderer.event(PrintfEvent(1, ()), LocalMaps(one))
    assert out.getvalue() == b"  xdone\n"
    assert StringType(2) == text(b"x").type
