"""Hits where calls begin and end become a flow: each call inside the one that it was made in, whatever was left."""

from __future__ import annotations

import io
import json
import os

import pytest

from tests.typed_ir import program
from tracer.dataclass import replace
from tracer.lang.types import UINT64, CharType, IntType, PointerType, StringType, TupleType
from tracer.lang.types.outside import Parameter
from tracer.render.flow.calls import NEAR, Begun, Ended, Hit, Resumed
from tracer.render.flow.chrome import ChromeFlow
from tracer.render.flow.lines import LinesFlow
from tracer.render.flow.renderer import FlowRenderer, Function, duration
from tracer.render.flow.text import TextFlow
from tracer.results.events import Loss, ValueBatch, ValueEvent
from tracer.results.store import LocalMaps

INT = IntType(32, True)
N = Parameter("n", "int", INT, ((0, 4, 0, 0),))
TOP = 0x7FFD_0000_1000
TRAMPOLINE = 0x7FFFFFFFE000


def function(name: str, *, above: bool = False, leaves: bool = False, returns: bool = True) -> Function:
    point = f"/bin/app:{name}"
    return Function(name, f"uprobe:{point}", (N,), INT if returns else None, None, returns, above, leaves, point)


FUNCTIONS = {
    "top": function("top", above=True),
    "f": function("f"),
    "jumps": function("jumps", leaves=True),
    "nothing": function("nothing", returns=False),
    "bare": replace(function("bare"), parameters=None, result=None),
}
NONE = program([])


def begun(time: int, name: str, place: int, n: int = 0, back: int = 0x400000, thread: int = 7) -> Begun:
    who = (5, b"app") if name == "top" else (0, b"")
    return Begun(time, thread, name, TOP - place, back, (n,), *who)


def ended(time: int, name: str, place: int, result: int = 0, thread: int = 7, popped: int = 8) -> Ended:
    return Ended(time, thread, name, TOP - place + popped, result)


def fed(renderer: FlowRenderer, *hits: Hit) -> None:
    for hit in hits:
        renderer.calls.take(hit)


def text(*hits: Hit) -> list[str]:
    """The lines, without the thread where there is one, nor the line that names it."""
    out = io.BytesIO()
    renderer = TextFlow(FUNCTIONS, NONE, None, out)
    fed(renderer, *hits)
    renderer.calls.close()
    lines = out.getvalue().decode().splitlines()
    return [line.removeprefix("      7  ") for line in lines if "# app, process 5" not in line]


def test_a_call_without_others_is_a_line_and_one_with_others_has_one_for_its_end() -> None:
    assert text(
        begun(0, "top", 0, 3), begun(1000, "f", 32, 2), ended(3000, "f", 32, 9), begun(4000, "f", 32, -1 & 0xFFFFFFFF),
        ended(5500, "f", 32, -2 & 0xFFFFFFFF), ended(10000, "top", 0, 1),
    ) == ["top(n=3) {", "  f(n=2) = 9  2.00 us", "  f(n=-1) = -2  1.50 us", "} = 1  10.0 us, self 6.50 us"]  # fmt: skip


def test_recursion_is_told_apart_by_the_place_on_the_stack_at_a_ret_and_behind_it() -> None:
    for popped in (0, 8):
        assert text(
            begun(0, "top", 0, 2), begun(1, "top", 8, 1), begun(2, "top", 16), ended(3, "top", 16, 5, popped=popped),
            ended(5, "top", 8, 6, popped=popped), ended(9, "top", 0, 7, popped=popped),
        ) == [
            "top(n=2) {", "  top(n=1) {", "    top(n=0) = 5  1 ns", "  } = 6  4 ns, self 3 ns", "} = 7  9 ns, self 5 ns"
        ]  # fmt: skip


def test_what_returns_nothing_or_is_not_known_shows_no_more_than_that() -> None:
    assert text(
        begun(0, "top", 0), begun(1, "nothing", 32, 4), ended(2, "nothing", 32, 99), begun(3, "bare", 32, 4),
        ended(4, "bare", 32, 255), ended(9, "top", 0),
    ) == ["top(n=0) {", "  nothing(n=4) 1 ns", "  bare(?) = 0xff  1 ns", "} = 0  9 ns, self 7 ns"]  # fmt: skip


def test_what_is_not_below_the_function_is_no_part_of_its_flow() -> None:
    assert text(begun(0, "f", 32), ended(1, "f", 32), begun(2, "top", 0), ended(3, "top", 0), begun(4, "f", 16)) == [
        "top(n=0) = 0  1 ns"
    ]


def test_calls_that_an_exception_left_end_where_it_is_caught() -> None:
    assert text(
        begun(0, "top", 0), begun(1, "f", 32, 2), begun(2, "f", 64, 1), Resumed(3, 7, TOP - 32, "an exception"),
        begun(4, "f", 48, 5), ended(6, "f", 48, 1), ended(9, "top", 0),
    ) == [
        "top(n=0) {", "  f(n=2) {", "    f(n=1) left by an exception", "  } left by an exception",
        "  f(n=5) = 1  2 ns", "} = 0  9 ns, self 7 ns",
    ]  # fmt: skip


def test_calls_that_nobody_told_of_being_left_end_where_their_thread_comes_further_out() -> None:
    for last in (begun(4, "nothing", 32), ended(4, "top", 0)):
        lines = text(begun(0, "top", 0), begun(1, "f", 32, 2), begun(2, "f", 64, 1), last)
        assert lines[:4] == ["top(n=0) {", "  f(n=2) {", "    f(n=1) no return seen", "  } no return seen"]


def test_the_next_call_of_a_caller_is_not_inside_one_that_it_has_left() -> None:
    """Not even of a function that may end in tail calls: another instruction calls it, so it returns elsewhere."""
    assert text(
        begun(0, "top", 0), begun(1, "jumps", 32), begun(2, "f", 32, 3, back=0x400100), ended(3, "f", 32, 4),
        ended(9, "top", 0),
    ) == ["top(n=0) {", "  jumps(n=0) no return seen", "  f(n=3) = 4  1 ns", "} = 0  9 ns, self 8 ns"]  # fmt: skip
    assert text(begun(0, "top", 0), begun(1, "f", 32, 1), begun(2, "f", 32, 2))[1] == "  f(n=1) no return seen"


def test_a_tail_call_is_inside_the_call_that_it_ends_whichever_return_comes_first() -> None:
    ends = ended(3, "f", 32, 4), ended(4, "jumps", 32, 4)
    for back, order in ((0x400000, ends), (TRAMPOLINE + 0x10, ends), (0x400000, ends[::-1])):
        lines = text(begun(0, "top", 0), begun(1, "jumps", 32, 3), begun(2, "f", 32, 4, back=back), *order)
        assert lines[:2] == ["top(n=0) {", "  jumps(n=3) {"]
        assert lines[2].startswith("    f(n=4) = 4  ") and lines[3].startswith("  } = 4  ")


def test_each_thread_has_a_flow_of_its_own() -> None:
    out = io.BytesIO()
    fed(
        TextFlow(FUNCTIONS, NONE, None, out), begun(0, "top", 0, 1), begun(1, "top", 500, 2, thread=8),
        begun(2, "f", 32, 3), begun(3, "f", 532, 4, thread=8), ended(4, "f", 32, 5), ended(5, "f", 532, 6, thread=8),
        ended(6, "top", 500, 7, thread=8), ended(7, "top", 0, 8),
    )  # fmt: skip
    assert out.getvalue().decode().splitlines() == [
        "      7  # app, process 5", "      8  # app, process 5", "      7  top(n=1) {", "      8  top(n=2) {",
        "      7    f(n=3) = 5  2 ns", "      8    f(n=4) = 6  2 ns", "      8  } = 7  5 ns, self 3 ns",
        "      7  } = 8  7 ns, self 5 ns",
    ]  # fmt: skip


def test_a_thread_whose_flow_has_ended_is_forgotten() -> None:
    renderer = TextFlow(FUNCTIONS, NONE, None, io.BytesIO())
    fed(renderer, begun(0, "top", 0), begun(1, "f", 32), ended(2, "f", 32), ended(3, "top", 0))
    assert renderer.calls.threads == {}


def test_a_signals_handler_on_a_stack_far_above_is_inside_what_it_interrupts() -> None:
    above = -2 * NEAR
    assert text(
        begun(0, "top", 0), begun(1, "f", 32, 1), begun(2, "f", above, 2), begun(3, "f", above + 32, 3),
        ended(4, "f", above + 32), ended(5, "f", above), ended(6, "f", 32), ended(7, "top", 0),
    ) == [
        "top(n=0) {", "  f(n=1) {", "    f(n=2) {", "      f(n=3) = 0  1 ns", "    } = 0  3 ns, self 2 ns",
        "  } = 0  5 ns, self 2 ns", "} = 0  7 ns, self 2 ns",
    ]  # fmt: skip


def test_a_call_whose_thread_goes_back_to_its_stack_has_its_own_end() -> None:
    fiber = 4 * NEAR
    assert text(
        begun(0, "top", 0), begun(1, "f", fiber, 1), begun(2, "f", 64, 2), ended(3, "f", 64, 6), ended(4, "f", fiber, 5)
    ) == ["top(n=0) {", "  f(n=1) no return seen", "  f(n=2) = 6  1 ns", "  } = 5  3 ns  # f, gone back to"]


def test_a_return_without_a_beginning_changes_no_indent() -> None:
    assert text(
        begun(0, "top", 0), ended(1, "f", 32, 3), begun(2, "f", 32, 1), ended(3, "f", 32), ended(4, "top", 0)
    ) == [
        "top(n=0) {", "  # return of f = 3, whose beginning was not seen", "  f(n=1) = 0  1 ns",
        "} = 0  4 ns, self 3 ns",
    ]  # fmt: skip


def test_a_function_that_is_detached_has_no_end_and_moves_nothing() -> None:
    out = io.BytesIO()
    renderer = TextFlow(FUNCTIONS, NONE, None, out)
    fed(renderer, begun(0, "top", 0), begun(1, "f", 32), begun(2, "nothing", 64))
    renderer.detached("uprobe:/bin/app:f", 1, 1.0, 1.0, ())
    fed(renderer, ended(3, "nothing", 64), ended(9, "top", 0))
    assert [line[9:] for line in out.getvalue().decode().splitlines()[1:]] == [
        "top(n=0) {", "  f(n=0) {", "    nothing(n=0) 1 ns", "} = 0  9 ns, self 8 ns"
    ]  # fmt: skip


def test_losses_are_told_among_the_calls() -> None:
    out = io.BytesIO()
    renderer = TextFlow(FUNCTIONS, NONE, None, out)
    fed(renderer, begun(0, "top", 0))
    renderer.lost_so_far = lambda: 3
    renderer.flush()
    fed(renderer, ended(9, "top", 0))
    renderer.lost(Loss(events=4))
    lost = "lost before this line: calls are missing, and what was inside one stands too far out"
    assert [line for line in out.getvalue().decode().splitlines() if line.startswith("#")] == [
        f"# 3 records were {lost}", f"# 1 record was {lost}"
    ]  # fmt: skip


def test_where_something_is_missing_it_is_told_at_once_whether_it_was_lost() -> None:
    out = io.BytesIO()
    renderer = TextFlow(FUNCTIONS, NONE, None, out)
    second = 1_000_000_000
    fed(renderer, begun(second, "top", 0))
    renderer.lost_so_far = lambda: 2
    fed(renderer, ended(2 * second, "f", 32, 3), ended(3 * second, "top", 0))
    assert [line.removeprefix("      7  ") for line in out.getvalue().decode().splitlines()[1:]] == [
        "top(n=0) {",
        "# 2 records were lost before this line: calls are missing, and what was inside one stands too far out",
        "  # return of f = 3, whose beginning was not seen", "} = 0  2.00 s, self 2.00 s",
    ]  # fmt: skip


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the hits is there."""
    monkeypatch.setattr("tracer.render.flow.renderer.has_ended", lambda thread, began_ns: False)


@pytest.mark.usefixtures("running")
def test_what_is_under_way_at_the_end_is_told_the_innermost_first() -> None:
    out = io.BytesIO()
    renderer = TextFlow(FUNCTIONS, NONE, None, out)
    fed(renderer, begun(0, "top", 0), begun(1, "f", 32))
    renderer.finish()
    lines = [line[9:].partition(" for ")[0] for line in out.getvalue().decode().splitlines()[1:]]
    assert lines == ["top(n=0) {", "  f(n=0) {", "  } under way", "} under way"]


def test_a_call_whose_thread_has_ended_is_not_under_way() -> None:
    """One that has its number now began later."""
    hit = begun(1, "top", 0, 3, thread=os.getpid())
    how = {}
    for form in (TextFlow, LinesFlow, ChromeFlow):
        out = io.BytesIO()
        renderer = form(FUNCTIONS, NONE, None, out)
        fed(renderer, hit)
        renderer.finish()
        how[form] = out.getvalue().decode()
    assert how[TextFlow].splitlines()[-1].endswith("  } left: its thread has ended")
    data = json.loads(how[LinesFlow])["data"]
    assert (data["left"], "age" in data) == ("its thread has ended", False)
    last = json.loads(how[ChromeFlow])["traceEvents"][-1]
    assert (last["ph"], last["args"]) == ("B", {"n": "3", "ended": "its thread has ended"})


def test_the_records_of_a_program_are_hits_and_what_else_it_prints_stays() -> None:
    names = "time tid func sp back pid comm arg0"
    first = (UINT64, UINT64, StringType(64), UINT64, UINT64, UINT64, StringType(16), UINT64)
    shapes = (
        TupleType(first, tuple(names.split())),
        TupleType((UINT64, UINT64, StringType(64), UINT64, UINT64), ("time", "tid", "func", "sp", "retval")),
        TupleType((UINT64, UINT64, UINT64, StringType(16)), ("time", "tid", "sp", "why")),
        UINT64,
    )  # fmt: skip
    whole, out = replace(NONE, shapes=shapes), io.BytesIO()
    renderer = TextFlow(FUNCTIONS, whole, None, out)
    maps = LocalMaps(whole)
    tops = [(1, 7, b"top", TOP, 4, 5, b"app", 3), (2, 7, b"top", TOP - 32, 4, 5, b"app", 2)]
    renderer.event(ValueBatch(0, tops), maps)
    renderer.event(ValueEvent(2, (3, 7, TOP - 32, b"an exception")), maps)
    renderer.event(ValueEvent(3, 12), maps)
    renderer.event(ValueEvent(1, (5, 7, b"top", TOP + 8, 9)), maps)
    assert out.getvalue().decode().splitlines() == [
        "      7  # app, process 5", "      7  top(n=3) {", "      7    top(n=2) left by an exception", "12",
        "      7  } = 9  4 ns, self 4 ns",
    ]  # fmt: skip


def test_parameters_are_shown_by_their_types() -> None:
    pointer = PointerType(64, target=CharType(8, True))
    parameters = (
        Parameter("text", "char*", pointer, ((0, 8, 0, 0),)), Parameter("d", "double", None, (), reason="in xmm0"),
        Parameter("small", "short", IntType(16, True), ((0, 2, 1, 0),)),
    )  # fmt: skip
    of_top = replace(FUNCTIONS["top"], parameters=parameters, result=pointer)
    out = io.BytesIO()
    fed(
        TextFlow({"top": of_top}, NONE, None, out), Begun(0, 7, "top", TOP, 1, (0x1234, 0xABCDFFFE), 5, b"app"),
        ended(1, "top", 0, 0xFF00),
    )  # fmt: skip
    assert out.getvalue().decode().splitlines()[1][9:] == "top(text=0x1234, d=?, small=-2) = 0xff00  1 ns"


def test_names_of_parameters_cannot_write_more_than_themselves() -> None:
    """Debug information may have any bytes there."""
    names = "\udcff\x1b[2J", "d"
    of_top = replace(FUNCTIONS["top"], parameters=tuple([replace(N, name=name) for name in names]))
    out = io.BytesIO()
    fed(TextFlow({"top": of_top}, NONE, None, out), begun(0, "top", 0, 3), ended(1, "top", 0))
    assert out.getvalue().decode().splitlines()[1][9:] == "top(\\xff\\x1b[2J=3, d=3) = 0  1 ns"


@pytest.mark.usefixtures("running")
def test_a_document_of_chrome_has_each_call_once_and_those_under_way_without_an_end() -> None:
    out = io.BytesIO()
    renderer = ChromeFlow(FUNCTIONS, NONE, None, out)
    fed(
        renderer, begun(1000, "top", 0, 3), begun(2500, "f", 32, 1), ended(4000, "f", 32, 2), begun(5000, "f", 32, 4),
        Resumed(6000, 7, TOP - 32, "longjmp()"),
    )  # fmt: skip
    renderer.lost(Loss(events=2))
    renderer.finish()
    whole = json.loads(out.getvalue())
    assert whole["otherData"] == {"lost": "2 records"}
    who = {"cat": "call", "pid": 5, "tid": 7}
    assert whole["traceEvents"] == [
        {"ph": "M", "name": "process_name", "pid": 5, "tid": 7, "args": {"name": "app"}},
        {"ph": "M", "name": "thread_name", "pid": 5, "tid": 7, "args": {"name": "app"}},
        {**who, "name": "f", "ph": "X", "ts": 2.5, "dur": 1.5, "args": {"n": "1", "result": "2"}},
        {**who, "name": "f", "ph": "X", "ts": 5.0, "dur": 1.0, "args": {"n": "4", "ended": "left by longjmp()"}},
        {**who, "name": "top", "ph": "B", "ts": 1.0, "args": {"n": "3"}},
    ]
    empty = io.BytesIO()
    ChromeFlow(FUNCTIONS, NONE, None, empty).finish()
    assert json.loads(empty.getvalue())["traceEvents"] == []


@pytest.mark.usefixtures("running")
def test_lines_of_json_have_each_call_as_it_ends() -> None:
    out = io.BytesIO()
    renderer = LinesFlow(FUNCTIONS, NONE, None, out)
    fed(
        renderer, begun(10, "top", 0, 3), begun(20, "f", 32, 1), ended(25, "f", 32, 2), begun(30, "bare", 32, 4),
        Resumed(40, 7, TOP - 32, "longjmp()"), ended(50, "f", 32),
    )  # fmt: skip
    renderer.lost(Loss(events=2))
    renderer.finish()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    who = {"pid": 5, "tid": 7, "comm": "app"}
    assert lines[-1]["data"].pop("age") > 0
    call = {"func": "f", "args": {"n": "1"}, "result": "2", "duration": 5, "self": 5}
    assert lines == [
        {"type": "call", "data": {"time": 20, **who, "depth": 1, **call}},
        {"type": "call", "data": {"time": 30, **who, "depth": 1, "func": "bare", "left": "longjmp()"}},
        {"type": "return", "data": {"time": 50, "tid": 7, "func": "f"}},
        {"type": "lost_events", "data": {"events": 2}},
        {"type": "call", "data": {"time": 10, **who, "depth": 0, "func": "top", "args": {"n": "3"}}},
    ]


def test_durations_have_three_digits() -> None:
    shown = {0: "0 ns", 999: "999 ns", 1000: "1.00 us", 12_345: "12.3 us", 999_400: "999 us", 1_234_567: "1.23 ms",
        99_960_000_000: "100 s"}  # fmt: skip
    assert {ns: duration(ns).decode() for ns in shown} == shown
