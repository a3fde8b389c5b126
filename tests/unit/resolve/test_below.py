"""Which functions make the flow below one: those that direct calls lead to, as many as can be borne."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tracer.cli.questions.flow import program
from tracer.errors import TracerError
from tracer.kinds.site import EVERY_PROCESS
from tracer.lang.syntax import attach
from tracer.lang.types import CharType, IntType
from tracer.resolve.below import MOST, Flow, flow_of

SOURCE = r"""
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#define PROBED __attribute__((noinline, noclone))
#define KEPT(x) __asm__ volatile("" : "+r"(x) : : "memory")
static jmp_buf back;
int (*pointer)(int);
PROBED int goal(int n) { KEPT(n); return n; }
PROBED int tails(int n) { return goal(n + 1); }
PROBED int lower(int n) { int r = tails(n) + 1; KEPT(r); return r; }
PROBED int middle(int n) { int r = lower(n) + middle(n - 1); KEPT(r); return r; }
PROBED void quiet(double x) { KEPT(pointer); (void)x; }
PROBED double half(double x) { KEPT(pointer); return x / 2; }
PROBED int through(int n) { int r = pointer(n) + abs(n); KEPT(r); return r; }
PROBED int elsewhere(int n) { KEPT(n); return n; }
PROBED int tries(int n) { if (setjmp(back)) return 1; int r = middle(n); KEPT(r); return r; }
PROBED int top(int n) { int r = middle(n) + through(n) + tries(n); quiet(half(n)); KEPT(r); return r; }
int main(int count, char **words) { pointer = elsewhere; return top(count) + elsewhere(words[0][0]); }
"""


@pytest.fixture
def app(build: Build) -> Path:
    return build(SOURCE, "-O1", "-g", "-foptimize-sibling-calls")


def flow(
    path: Path, depth: int | None = None, only: str | None = None, more: tuple[str, ...] = (), name: str = "top"
) -> Flow:
    points = [attach.read(f"uprobe:{path}:{function}", 0)[0] for function in (name, *more)]
    return flow_of(points[0], EVERY_PROCESS, depth, only, points[1:])


def names(chosen: Flow) -> list[str]:
    return sorted(function.name for function in chosen.below)


def test_each_level_of_depth_adds_what_the_one_before_calls(app: Path) -> None:
    assert [function.name for function in flow(app).above] == ["top"]
    first = ["half", "middle", "quiet", "through", "tries"]
    assert names(flow(app, 0)) == []
    assert names(flow(app, 1)) == first
    assert names(flow(app, 2)) == sorted([*first, "lower"])
    assert names(flow(app, 3)) == names(flow(app)) == sorted([*first, "lower", "tails"])
    assert names(flow(app, 4)) == sorted([*first, "lower", "tails", "goal"])
    assert flow(app).depth == 3


def test_names_are_chosen_by_a_pattern_and_others_are_named(app: Path) -> None:
    assert names(flow(app, 4, "*l*")) == ["goal", "half", "lower", "middle", "tails"]
    assert names(flow(app, 1, "half", ("elsewhere", "half", "top"))) == ["elsewhere", "half"]


def test_what_is_not_followed_is_said(app: Path) -> None:
    (said,) = flow(app).left_out
    assert said == (
        "calls through pointers and into other files are not followed, as in through, tries:"
        " --with FILE:FUNCTION adds such functions"
    )
    assert flow(app, 1, name="lower").left_out == ()


def test_parameters_results_and_tail_calls_are_known_beforehand(app: Path) -> None:
    functions = {function.name: function for function in flow(app, 4).functions}
    assert functions["top"].result == IntType(32, True)
    assert functions["half"].result == "it is in a floating-point register, which no probe can read"
    assert functions["quiet"].result == "it returns no value"
    assert [name for name, function in functions.items() if function.leaves] == ["tails"]
    parameters = functions["half"].parameters
    assert not isinstance(parameters, str) and [parameter.name for parameter in parameters] == ["x"]


def test_setjmp_returns_where_its_call_does(app: Path) -> None:
    (point,) = flow(app).jumps
    address = int(point.rpartition(":")[2], 16)
    (tries,) = [function for function in flow(app).below if function.name == "tries"]
    assert tries.entry.address < address < tries.entry.address + 64
    assert flow(app).catches == ()


def test_functions_of_one_name_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """Each is probed at its address, and named with its place."""
    kept = '__asm__ volatile("" : "+r"(n)); return n; }\n'
    same = f"static __attribute__((noinline)) %s same(%s n) {{ {kept}"
    (tmp_path / "a.c").write_text(same % ("char", "long") + f"int other(int n) {{ n = same(n); {kept}")
    (tmp_path / "b.c").write_text(
        same % ("int", "int") + f"int other(int); int top(int n) {{ n = same(n) + other(n); {kept}"
        "int main(int count, char **words) { return top(count) + !words; }\n"
    )
    app = tmp_path / "app"
    subprocess.run(["gcc", "-O1", "-g", tmp_path / "a.c", tmp_path / "b.c", "-o", app], check=True)
    chosen = flow(app)
    assert names(chosen) == ["other", "same", "same"]
    int32 = IntType(32, True)
    known = {function.key: function.result for function in chosen.below}
    assert known == {"other": int32, "same a.c:1": CharType(), "same b.c:1": int32} and chosen.left_out == ()
    addresses = [function.entry.address for function in chosen.below if function.name == "same"]
    text = program(chosen, None)
    assert [text.count(f"uretprobe:{app}:{address:#x} ") for address in addresses] == [1, 1]
    assert f"{app}:same" not in text and 'func="same b.c:1"' in text


def many(number: int) -> str:
    bodies = "".join([
        f"__attribute__((noinline, noclone)) int f{n}(int a) {{ __asm__ volatile(\"\" : \"+r\"(a)); return a; }}\n"
        for n in range(number)
    ])
    calls = "".join([f"r += f{n}(r);" for n in range(number)])
    called = f"__attribute__((noinline)) int all(int r) {{ {calls} return r; }}\n"
    top = '__attribute__((noinline)) int top(int r) { r = all(r) + 1; __asm__ volatile("" : "+r"(r)); return r; }\n'
    return f"{bodies}{called}{top}int main(int count, char **words) {{ return top(count); }}\n"


def test_too_many_functions_are_refused_or_where_nobody_said_how_deep_fewer(build: Build) -> None:
    path = build(many(MOST), "-O1")
    kept = flow(path)
    assert (names(kept), kept.depth) == (["all"], 1)
    number = MOST + 2
    assert kept.left_out[0] == (
        f"top leads to {number} functions within 2 levels of calls, too many to trace, so it is --depth 1;"
        " --only GLOB takes those of some names"
    )
    with pytest.raises(TracerError) as refused:
        flow(path, 2)
    assert (refused.value.message, refused.value.hint) == (
        f"top leads to {number} functions within 2 levels of calls, more than the {MOST} whose traps can be borne",
        "--depth 1 leads to 2; --only GLOB takes those whose names match",
    )
    assert len(names(flow(path, 2, "f1*"))) == 1 + 10 + 100


def test_what_has_no_flow_says_why(app: Path) -> None:
    with pytest.raises(TracerError, match="only a whole function has a flow"):
        flow(app, name="top+4")
    with pytest.raises(TracerError, match="no function 'absent'"):
        flow(app, name="absent")
