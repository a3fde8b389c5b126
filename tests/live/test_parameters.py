"""Parameters by name: what the program passed, with the types of its debug information."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import check_output

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.targets.build import build_go, build_rust

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
        " uprobe:T:floats { @i = sum(args.i); @j = sum(args.j); @l = sum(args.m.l); }"
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
        "@l": total,
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


def test_of_wholes_that_cannot_be_read_the_readable_parts_are_named(place: Callable[[str], Path]) -> None:
    done = tracer("check", "-e", f"uprobe:{place('records-O2')}:floats {{ print(args); }}")
    faults = [line.split("error: ")[1] for line in done.err.splitlines() if "error: " in line]
    named = [fault.split(" cannot")[0] for fault in faults]
    assert named == ["args.d (double)", "args.m (struct mixed)", "args.f (float)"]
    done = tracer("check", "-e", f"uprobe:{place('records-O2')}:floats {{ print(args.m.d); }}")
    assert "args.m (struct mixed) cannot be read: a part of it" in done.err
    assert "; a member that is elsewhere can be: args.m.MEMBER\n" in done.err
    assert all(fault.endswith("; these can be read: args.i, args.j") for fault in faults)


@pytest.mark.parametrize("name", ["hierarchy-O0", "hierarchy-O2"])
def test_classes_references_and_templates(backend: str, name: str, place: Callable[[str], Path], clean: None) -> None:
    program = place(name)
    symbols = [line.split()[-1] for line in check_output(["nm", str(program)], text=True).splitlines() if " " in line]
    mix, made, area = (
        next(each for each in symbols if each.startswith(start))
        for start in ("_ZN3geo3mix", "_ZN3geo4made", "_ZNK3geo3BoxIiE4area")
    )
    found = answer(
        backend,
        program,
        f"uprobe:T:{mix} {{ @w = sum(args.box.w); @id = max(args.box.id); @n = sum(args.number);"
        " @text[str(args.text._M_dataplus._M_p), str(args.other._M_dataplus._M_p)] = count();"
        " @x = sum(args.plain.x); @yes = sum(args.yes);"
        " @owned = sum(*args.owned._M_t._M_t._M_head_impl); }"
        f" uprobe:T:{made} {{ @value = sum(args.value); @moved[args.plain.x, args.plain.y] = count(); }}"
        f" uprobe:T:{area} {{ @this = sum(args.this->w); @h[args.this->h, args.this->id] = count();"
        " @cast = sum(((struct geo::Box<int> *)arg0)->w); }",
    )
    total = sum(range(ROUNDS))
    assert found == {
        "@w": total,
        "@id": 9,
        "@n": total + 10 * ROUNDS,
        "@text": {"hi,there": ROUNDS},
        "@x": total,
        "@yes": ROUNDS // 2,
        "@owned": total,
        "@value": total,
        "@moved": {"1,2": ROUNDS},
        "@this": total,
        "@cast": total,
        "@h": {"4,9": ROUNDS},
    }


def test_a_member_that_several_base_classes_have_is_refused(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    program = place("hierarchy-O2")
    site = f'uprobe:{program}:cpp:"twins"'
    done = tracer("--backend", backend, "-e", f"{site} {{ print(args.both.id); }}", "-c", f"{program} 1")
    assert done.status == 2 and "struct Both has several members 'id', at its bytes 0 and 4" in done.err
    text = f"{site} {{ print((args.both.z, args.both.own, *(int32 *)(arg0 + 4))); }}"
    done = tracer("-q", "--backend", backend, "-e", text, "-c", f"{program} 1")
    assert "(3, 4, 2)" in done.out.decode().splitlines(), done.err


def test_a_go_functions_registers_and_strings(backend: str, clean: None) -> None:
    program = build_go("records")
    text = (
        f"uprobe:{program}:main.takes {{ @name[str(args.name.str, 9), args.name.len] = count(); @n = sum(args.n);"
        " @xs[args.xs.len, args.xs.array[1]] = count(); @w = sum(args.sq->W);"
        " @by[args.by.H, args.by.Name.len] = count();"
        " @s[str(args.sq->Name.str, 7)] = count();"
        " @interface[(uint64)args.sh.data == (uint64)args.sq, args.sh.tab != 0] = count(); }"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program}")
    assert done.status == 0, done.err
    assert maps(done) == {
        "@name": {"hello go,8": 100},
        "@n": -sum(range(100)),
        "@xs": {"3,2": 100},
        "@w": 300,
        "@by": {"8,3": 100},
        "@s": {"square": 100},
        "@interface": {"true,true": 100},
    }


def test_a_rust_functions_slices_and_enums(backend: str, clean: None) -> None:
    program = build_rust("records", debug=2)
    text = (
        f'uprobe:{program}:"records::takes" {{ @s[str(args.s.data_ptr, 11), args.s.length] = count(); @n = sum(args.n);'
        " @v[args.v.length, args.v.data_ptr[2]] = count(); @e[args.e] = count(); @h = sum(args.sh->Rect.h);"
        " @t[args.t.a, args.t.c] = count(); @p = sum(args.p->b); }"
        f' uprobe:{program}:"records::holds" {{ @x = sum(args.a.x[0]); @y[args.a.y, args.last] = count(); }}'
    )
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program}")
    assert done.status == 0, done.err
    assert maps(done) == {
        "@s": {"hello rust,10": 100},
        "@n": sum(range(100)),
        "@v": {"4,3": 100},
        "@e": {"3": 50, "9": 50},
        "@h": sum(range(100)),
        "@t": {"11,13": 100},
        "@p": 200,
        "@x": 2 * sum(range(100)),
        "@y": {"7,9": 100},
    }
