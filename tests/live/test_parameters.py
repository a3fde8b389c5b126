"""Parameters by name: what the program passed, with the types of its debug information."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import check_output, run

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
        "@c": {"RED": ROUNDS - blue, "BLUE": blue},
        "@b": ROUNDS // 3,
        "@bits": {"5,17": ROUNDS},
        "@blue": {"true": blue, "false": ROUNDS - blue},
        "@neg": {f"-2,120,MINUS,-5,12,{1 << 40},200": ROUNDS},
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
        "(BLUE, 0)",
        "BLUE",
        "-1",
        "{ .s = { .a = 1, .b = 2 }, .m = { .a = 3, .b = 4 }, .g = { .a = [5,6,7,8,1] },"
        " .o = { .text = 0123456789 }, .after = 13 }",
        "3",
    ]


ENUMS = """
enum class Mode : unsigned char { Off, On = 3, Most = 200 };
enum Plain { PA, PB = 9 };
typedef enum { LOW = -1, HIGH = 1 } level;
namespace shop {
enum class Kind { Tea, Coffee = 4 };
struct Item { Kind kind; Mode mode; int n; level l; Plain both[2]; };
}
extern "C" __attribute__((noinline))
int go(Mode m, shop::Kind k, shop::Item *i, Plain p, const shop::Kind &r, level l) {
  asm volatile("" ::: "memory");
  return (int)m + (int)k + i->n + p + (int)r + l;
}
int main() {
  shop::Item item{shop::Kind::Coffee, Mode::On, 2, LOW, {PB, PA}};
  shop::Kind kind = shop::Kind::Coffee;
  volatile int sum = 0;
  for (int i = 0; i < 3; i++)
    sum += go(i ? Mode::Most : Mode::Off, i ? kind : shop::Kind::Tea, &item, i ? PB : (Plain)7, kind, i ? LOW : HIGH);
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_enums_are_shown_by_name_and_added_up_as_numbers(
    backend: str, compiler: str, tmp_path: Path, clean: None
) -> None:
    source, program = tmp_path / "enums.cc", tmp_path / "enums"
    source.write_text(ENUMS)
    run([compiler, "-g", "-O1", "-o", str(program), str(source)], check=True)
    text = (
        f"uprobe:{program}:go {{ print((args.m, args.k, args.p, args.l)); print(*args.i); print(args.r);"
        ' printf("%s %d", args.m, args.m); @[args.k, args.m] = count(); @sum = sum(args.m); @least = min(args.l);'
        " @last = args.m; if (args.k == shop::Kind::Coffee && args.i->both[1] == PA) { @coffee++; } }"
    )
    done = tracer("-q", "--backend", backend, "-e", text, "-c", str(program))
    item = "{ .kind = Coffee, .mode = On, .n = 2, .l = LOW, .both = [PB,PA] }"
    assert done.out.decode() == (
        f"(Off, Tea, 7, HIGH)\n{item}\nCoffee\nOff 0"
        + 2 * f"(Most, Coffee, PB, LOW)\n{item}\nCoffee\nMost 200"
        + "\n\n@[Tea, Off]: 1\n@[Coffee, Most]: 2\n@coffee: 2\n@last: Most\n@least: -1\n@sum: 400\n"
    )
    done = tracer("-q", "--backend", backend, "-f", "json", "-e", text, "-c", str(program))
    lines = done.out.decode().splitlines()
    whole = '{"type": "value", "data": {"kind": 4, "mode": 3, "n": 2, "l": -1, "both": [9,0]}}'
    assert lines[:4] == [
        '{"type": "value", "data": [0,0,7,1]}', whole, '{"type": "value", "data": 4}',
        '{"type": "printf", "data": "Off 0"}',
    ]  # fmt: skip
    assert lines[-5:] == [
        '{"type": "map", "data": {"@": {"Tea,Off": 1, "Coffee,Most": 2}}}',
        *(f'{{"type": "map", "data": {{"{name}": {value}}}}}' for name, value in
          (("@coffee", 2), ("@last", 200), ("@least", -1), ("@sum", 400))),
    ]  # fmt: skip


STATIC = """
struct cfg { int k; };
static __attribute__((noinline)) int init(TYPE v) { __asm__ volatile("" ::: "memory"); return VALUE; }
int NAME(TYPE v) { return init(v); }
"""
CALLS = """
int one(int); int other(struct cfg *);
int main(void) { struct cfg c = {500}; return one(7) + other(&c) == 507 ? 0 : 1; }
"""


def test_static_functions_of_one_name_with_other_parameters_are_told_apart_by_address(
    backend: str, tmp_path: Path, clean: None
) -> None:
    for name, type, value in (("one", "int", "v"), ("other", "struct cfg *", "v->k")):
        text = STATIC.replace("TYPE", type).replace("VALUE", value).replace("NAME", name)
        (tmp_path / f"{name}.c").write_text(text + CALLS * (name == "other"))
    program = tmp_path / "static"
    run(["gcc", "-O1", "-g", "-o", str(program), str(tmp_path / "one.c"), str(tmp_path / "other.c")], check=True)
    symbols = check_output(["nm", str(program)], text=True).splitlines()
    first, second = sorted(int(line.split()[0], 16) for line in symbols if line.endswith(" t init"))
    done = tracer("check", "-e", f"uprobe:{program}:init {{ print(args.v); }}")
    assert done.err.splitlines()[-1].split("error: ")[1] == (
        f"args cannot be those of two functions: init at {second:#x} has others than at {first:#x};"
        f" name one by its address, as in uprobe:{program}:{first:#x}"
    )
    text = f"uprobe:{program}:{first:#x} {{ print(args.v); }} uprobe:{program}:{second:#x} {{ print(args.v->k); }}"
    assert tracer("-q", "--backend", backend, "-e", text, "-c", str(program)).out == b"7\n500\n"


def test_a_parameter_that_is_no_address_is_not_read_at(place: Callable[[str], Path]) -> None:
    done = tracer("check", "-e", f"uprobe:{place('records-O2')}:take {{ print(str(args.a)); print(str(args.c, 8)); }}")
    assert [line.split("error: ")[1] for line in done.err.splitlines() if "error: " in line] == [
        f"args.{name} is a number of 32 bits, and no address; (uint64)args.{name} is taken as one" for name in "ac"
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
        "@e": {"A": 50, "B": 50},
        "@h": sum(range(100)),
        "@t": {"11,13": 100},
        "@p": 200,
        "@x": 2 * sum(range(100)),
        "@y": {"7,9": 100},
    }
