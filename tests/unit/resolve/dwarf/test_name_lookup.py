"""A name that several types or constants of a file have: what it means, and that none is chosen where they differ."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.unit.resolve.dwarf.test_debug_info import sites
from tracer import cache
from tracer.lang.types import EnumType, IntType, NamedType, PointerType, StructType, Type
from tracer.resolve.dwarf.debug_info import DebugInfo
from tracer.resolve.elf.file import Elf

ONE = """
struct state { int pad; int v; }; enum { LIMIT = 1, SAME = 7 }; struct alike { long a; };
long fa(struct state *s, struct alike *o) { return s->v + o->a + LIMIT + SAME; }
"""
OTHER = """
struct state { long pad[4]; int v; }; enum { LIMIT = 2, SAME = 7 }; struct alike { long a; };
long fb(struct state *s, struct alike *o) { return s->v + o->a + LIMIT + SAME; }
"""
MAIN = """
struct state; long fa(struct state *, void *); long fb(struct state *, void *);
long fm(void) { return 0; }
int main(void) { char b[64] = ""; return fa((void *)b, b) + fb((void *)b, b) + fm(); }
"""

CC = """
namespace a {
struct Item { int id; }; enum class Col { Red = 3, Blue }; enum Size { Small = 1 };
template <class T> struct Box { T v; }; namespace in { struct Deep { char c; }; }
}
namespace b { struct Item { long x; int id; }; enum class Col { Red = 4 }; }
namespace { struct Hidden { short s; }; }
struct Outer { struct Item { char c; int id; } it; };
struct Whole { int g; }; namespace b { struct Whole { long g; }; }
long f(a::Item *i, b::Item *j, Outer *o, a::Box<int> *x, a::Box<a::Item> *y, a::in::Deep *d, Whole *w, b::Whole *v) {
  Hidden h{5}; auto c = a::Col::Red; auto e = b::Col::Red; auto s = a::Small;
  return i->id + j->id + o->it.id + x->v + y->v.id + d->c + w->g + v->g + h.s + (int)c + (int)e + s;
}
int main() { a::Item i{}; b::Item j{}; Outer o{}; a::Box<int> x{}; a::Box<a::Item> y{}; a::in::Deep d{}; Whole w{};
  b::Whole v{}; return f(&i, &j, &o, &x, &y, &d, &w, &v); }
"""

FORMS = {
    "dwarf-4": ("gcc", "-gdwarf-4"),
    "dwarf-5": ("gcc", "-gdwarf-5"),
    "type units": ("gcc", "-gdwarf-5", "-fdebug-types-section"),
    "split": ("gcc", "-gdwarf-5", "-gsplit-dwarf"),
    "lto": ("gcc", "-gdwarf-5", "-flto", "-O1", "-fno-inline", "-fno-ipa-pure-const"),
    "clang": ("clang", "-gdwarf-5"),
}


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "load", lambda kind, key: None)
    monkeypatch.setattr(cache, "store", lambda kind, key, content: None)


def built(place: Path, form: str, sources: dict[str, str]) -> Path:
    compiler, *flags = FORMS[form]
    for name, text in sources.items():
        (place / name).write_text(text)
        language = f"{compiler}++".replace("gcc++", "g++") if name.endswith(".cc") else compiler
        subprocess.run([language, "-O0", *flags, "-w", "-c", name], check=True, cwd=place)
    link = ["g++", *flags] if "-flto" in flags else ["g++"]
    subprocess.run([*link, "-o", "program", *(f"{name.split('.')[0]}.o" for name in sources)], check=True, cwd=place)
    return place / "program"


@pytest.fixture
def two(form: str, tmp_path: Path) -> Path:
    return built(tmp_path, form, {"one.c": ONE, "other.c": OTHER, "main.c": MAIN})


def size(found: Type | str | None) -> int:
    assert isinstance(found, StructType), found
    return found.size


STATES = "'struct state' is one thing in one.c, another in other.c; write a clause for functions of one source file"


@pytest.mark.parametrize("form", FORMS)
def test_a_type_is_that_of_the_traced_functions_file(form: str, two: Path) -> None:
    at = {name: tuple(sites(two, name)) for name in ("fa", "fb", "fm")}
    info = DebugInfo(site for each in at.values() for site in each)
    assert (size(info.type("struct state", at["fa"])), size(info.type("struct state", at["fb"]))) == (8, 40)
    # A type unit does not say which file it is from, and nobody refers to that of an enum without a name.
    several = "'struct state' is several things of one name; write a clause for functions of one source file"
    states = several if form == "type units" else STATES
    limits = states.replace("struct state", "LIMIT")
    of_each = (limits, limits) if form == "type units" else (1, 2)
    assert (info.constant("LIMIT", at["fa"]), info.constant("LIMIT", at["fb"])) == of_each
    for asked in (at["fa"] + at["fb"], at["fm"], ()):
        assert (info.type("struct state", asked), info.constant("LIMIT", asked)) == (states, limits)
        assert (size(info.type("struct alike", asked)), info.constant("SAME", asked)) == (8, 7)


@pytest.mark.parametrize("form", ["dwarf-5"])
def test_what_dwz_moved_still_belongs_to_its_file(two: Path) -> None:
    # dwz moves what two units have in common to a third, which both import.
    copy = two.with_name("copy")
    copy.write_bytes(two.read_bytes())
    subprocess.run(["dwz", "-m", str(two.with_name("common")), str(two), str(copy)], check=True)
    at = {name: tuple(sites(two, name)) for name in ("fa", "fb")}
    info = DebugInfo(site for each in at.values() for site in each)
    assert (size(info.type("struct state", at["fa"])), size(info.type("struct state", at["fb"]))) == (8, 40)
    assert (info.constant("LIMIT", at["fa"]), info.constant("LIMIT", at["fb"])) == (1, 2)


@pytest.mark.parametrize("form", FORMS)
def test_names_with_their_namespaces(form: str, tmp_path: Path) -> None:
    info = DebugInfo(sites(built(tmp_path, form, {"names.cc": CC}), "f"))
    sizes = {
        "struct a::Item": 4, "a::Item": 4, "struct b::Item": 16, "Outer::Item": 8, "struct Outer": 8,
        "struct Box<int>": 4, "struct a::Box<int>": 4, "struct Box<a::Item>": 4, "in::Deep": 1, "a::in::Deep": 1,
        "Deep": 1, "struct (anonymous namespace)::Hidden": 2, "Hidden": 2, "struct Whole": 4, "b::Whole": 8,
    }  # fmt: skip
    assert {name: size(info.type(name)) for name in sizes} == sizes
    items = "a::Item and b::Item" if form == "type units" else "Outer::Item, a::Item and b::Item"
    assert info.type("struct Item") == f"'struct Item' is several: {items}; write which one"
    assert (info.type("struct c::Item"), info.type("n::Deep"), info.type("struct a::")) == (None, None, None)
    colour = info.type("enum a::Col")
    assert isinstance(colour, EnumType) and (colour.word(3), colour.word(4)) == ("Red", "Blue")
    values = {"a::Col::Red": 3, "b::Col::Red": 4, "Blue": 4, "Col::Blue": 4, "a::Small": 1, "a::Size::Small": 1}
    assert {name: info.constant(name) for name in values} == values
    assert info.constant("Red") == "'Red' is several: a::Red and b::Red; write which one"


def test_the_refusal_stands_under_the_name(tmp_path: Path) -> None:
    program = built(tmp_path, "dwarf-5", {"one.c": ONE, "other.c": OTHER, "main.c": MAIN})
    text = f"uprobe:{program}:fm {{ print((((struct state *)arg0)->v, LIMIT)); }}"
    done = tracer("check", "-e", text)
    assert done.status == 1
    column = text.index("struct state")
    assert done.err.splitlines()[:2] == [text, f"{' ' * column}{'^' * 14} error: {STATES}"]
    assert f"error: {STATES.replace('struct state', 'LIMIT')}" in done.err
    text = text.replace("fm", "fb").replace("LIMIT", "LIMIT, sizeof(struct state)")
    assert tracer("check", "-e", text).status == 0


OPAQUE = """
namespace a { struct Item; } namespace b { struct Item; } struct Holder { b::Item *inner; };
a::Item *mka(); b::Item *mkb();
long use(a::Item *x, b::Item *y, Holder *h) { return x != nullptr && y != nullptr && h; }
int main() { Holder h{mkb()}; return use(mka(), mkb(), &h); }
"""


@pytest.mark.parametrize("form", FORMS)
def test_what_is_only_declared_is_defined_in_its_namespace(form: str, tmp_path: Path) -> None:
    texts = {"use.cc": OPAQUE}
    for name, members in (("a", "int id;"), ("b", "long x; int id;")):
        own = f"namespace {name} {{ struct Item {{ {members} }}; }} static {name}::Item one;"
        texts[f"{name}.cc"] = f"{own} {name}::Item *mk{name}() {{ return &one; }}"
    program = built(tmp_path, form, texts)
    assert [size(each) for each in pointed(program)[:2]] == [4, 16]


def pointed(program: Path) -> list[Type | None]:
    """What the parameters of `use` lead to."""
    (site,) = sites(program, "use")
    info = DebugInfo([site])
    found = info.parameters(site)
    assert isinstance(found, tuple)
    types = [each.type.target for each in found if isinstance(each.type, PointerType)]
    return [info.type_at(each.place) for each in types if isinstance(each, NamedType) and each.place is not None]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_declared_and_defined_differently_is_not_known(form: str, tmp_path: Path) -> None:
    use = "struct alike; __attribute__((noipa)) long use(struct state *s, struct alike *a)"
    main = MAIN.replace("long fm(void)", use).replace("fm()", "use((void *)b, (void *)b)")
    program = built(tmp_path, form, {"one.c": ONE, "other.c": OTHER, "main.c": main})
    state, alike = pointed(program)
    assert state is None and size(alike) == 8


def test_pointers_to_different_structs_of_one_name_do_not_mix(tmp_path: Path) -> None:
    program = built(tmp_path, "dwarf-5", {"one.c": ONE, "other.c": OTHER, "main.c": MAIN})
    text = " ".join(f"uprobe:{program}:{name} {{ @p = (struct state *)arg0; }}" for name in ("fa", "fb"))
    done = tracer("check", "-e", text)
    assert done.status == 1 and "error: @p is assigned a struct state * here, but a struct state * at 1:" in done.err
    assert tracer("check", "-e", text.replace("state", "alike")).status == 0


@pytest.mark.parametrize("form", [name for name in FORMS if name != "lto"])  # which gives them names of its own
def test_a_variable_of_several_is_that_of_the_probes_file(form: str, tmp_path: Path) -> None:
    def text(name: str, first: int) -> str:
        step = "static __attribute__((noinline)) long step(int x) { static int inner = 9; return hits += x + inner++; }"
        own = f"static int hits = {first}, once{first} = 4;"
        return f"{own} {step} long {name}(int x) {{ return step(x) + once{first}++; }}"

    main = "long ra(int), rb(int); int main(int c, char **v) { return ra(c) + rb(c); }"
    program = built(tmp_path, form, {"one.c": text("ra", 5), "other.c": text("rb", 100), "main.c": main})
    at = {name: sites(program, name)[0] for name in ("ra", "rb", "main")}
    info = DebugInfo(at.values())
    with Elf(str(program)) as elf:
        for name, first in (("ra", 5), ("rb", 100)):
            found = info.variable(at[name], "hits")
            assert not isinstance(found, str) and found[1] == IntType(32)
            assert elf.memory(at[name].address + found[0], 4, "hits") == first.to_bytes(4, "little")
            assert not isinstance(info.variable(at[name], "once5"), str)
    assert info.variable(at["main"], "hits") == "hits is the name of 2 different variables in this file"
