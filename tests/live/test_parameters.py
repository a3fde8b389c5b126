"""Parameters by name: what the program passed, with the types of its debug information."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps

pytestmark = pytest.mark.live

ROUNDS = 300


def answer(backend: str, program: Path, clauses: str) -> dict[str, object]:
    """The maps at the end."""
    text = clauses.replace("T:", f"{program}:")
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program} {ROUNDS}")
    assert done.status == 0, done.err
    assert f"rounds {ROUNDS} sum {sum(range(ROUNDS))}" in done.out.decode()
    return maps(done)


@pytest.mark.parametrize("name", ["records-O0", "records-O2"])
def test_each_parameter_is_what_was_passed(backend: str, name: str, place: Callable[[str], Path], clean: None) -> None:
    found = answer(
        backend,
        place(name),
        "uprobe:T:take { @a = sum(args.a); @v = sum(args.n->next->v); @s[str(args.s)] = count(); @u = max(args.u);"
        " @c[args.c] = count(); @b = sum(args.b); @bits[args.n.low, args.n.high] = count();"
        " @blue[args.c == BLUE] = count(); }"
        " uprobe:T:more { @neg[args.c, args.ch, args.e, args.sh, args.t->q, args.seventh, args.eighth] = count(); }"
        " uprobe:T:pass { @by_value = sum(args.s.a); @g = sum(args.g.a[4]);"
        " @m[args.m.b, args.after, args.o.text] = count(); }"
        " uprobe:T:floats { @i = sum(args.i); @j = sum(args.j); }"
        " uprobe:T:make { @hidden = sum(args.i); }",
    )
    total = sum(range(ROUNDS))
    blue = ROUNDS // 2
    assert found == {
        "@a": -total,
        "@v": total,
        "@s": {"hello": ROUNDS},
        "@u": 4000000000,
        "@c": {"0": ROUNDS - blue, "6": blue},
        "@b": ROUNDS // 3,
        "@bits": {"5,17": ROUNDS},
        "@blue": {"true": blue, "false": ROUNDS - blue},
        "@neg": {f"-2,120,-1,-5,12,{1 << 40},200": ROUNDS},
        "@by_value": total,
        "@g": total,
        "@m": {"4,13,0123456789": ROUNDS},
        "@i": total,
        "@j": -total,
        "@hidden": total,
    }


def test_wholes_are_shown_as_bpftrace_shows_them(backend: str, place: Callable[[str], Path], clean: None) -> None:
    program = place("records-O2")
    text = (
        f"uprobe:{program}:take /args.a == -1/ {{ print(args.n->in); print(args.n->bytes); print((args.c, args.b));"
        " print((enum colour)args.c); print(args.n->i); }"
        f" uprobe:{program}:pass /args.s.a == 1/ {{ print(args); print(args.m.a); }}"
    )
    done = tracer("-q", "--backend", backend, "-e", text, "-c", f"{program} 2")
    assert [line for line in done.out.decode().splitlines() if not line.startswith("rounds")] == [
        "{ .s = 9, .name = one }",
        "[9,8,7,6]",
        "(6, 0)",
        "BLUE",
        "-1",
        "{ .s = { .a = 1, .b = 2 }, .m = { .a = 3, .b = 4 }, .g = { .a = [5,6,7,8,1] },"
        " .o = { .text = 0123456789 }, .after = 13 }",
        "3",
    ]
