"""`retval` of functions that return nothing, by debug information and by what their callers read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tracer import pipeline
from tracer.errors import ProgramError, Source
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.debug_info import DebugInfo
from tracer.resolve.sites.function_sites import site_inside

C = r"""
typedef void nothing;
volatile long sink;
#define KEPT __attribute__((noinline))
KEPT nothing none(long x) { sink = x; }
KEPT long some(long x) { sink = x; return x + 1; }
static KEPT long dropped(long x) { sink = x; return x + 4; }
static KEPT long passed(long x) { sink = x; return x + 2; }
static KEPT long used(long x) { sink = x; return x + 3; }
KEPT long through(long x) { sink = x; return passed(x); }
int main(int argc, char **argv) { none(1); some(2); dropped(argc); through(4); return used(argc) > 2; }
"""
FLOATS = r"""
struct two { double a, b; }; struct mixed { double a; long b; }; struct three { double a, b, c; };
typedef double real; typedef float four __attribute__((vector_size(16)));
double half(int n) { return n / 2.0; } real third(int n) { return n / 3.0; } float quarter(int n) { return n / 4.0f; }
long double fifth(int n) { return n / 5.0L; } _Complex double turn(int n) { return n * 1.0i; }
struct two pair(int n) { return (struct two){n, n}; } four vector(int n) { return (four){n, n, n, n}; }
struct mixed mixed(int n) { return (struct mixed){n, n}; }
struct three triple(int n) { return (struct three){n, n, n}; }
int main(void) { return 0; }
"""
IN_FLOATS = "it is in a floating-point register, which no probe can read"
NO_VALUE = "it returns no value"
UNUSED = "no caller uses its result, so the compiler has left it out"


def compiled(folder: Path, *words: str, source: str = C, name: str = "a.c") -> Path:
    (folder / name).write_text(source)
    subprocess.run([*words, "-o", folder / "made", folder / name], check=True)
    return folder / "made"


def said(path: Path, *functions: str) -> list[str]:
    """The errors and warnings of a clause that shows retval of these functions."""
    points = ", ".join(f"uretprobe:{path}:{each}" for each in functions)
    try:
        _, found = pipeline.plan(Source(f"config = {{ unsafe_returns = true }} {points} {{ print(retval); }}"))
    except ProgramError as error:
        found = list(error.diagnostics)
    return [f"{each.severity}: {each.message}".replace(str(path), "FILE") for each in found]


@pytest.mark.parametrize("words", ["gcc -O2", "gcc -O0", "gcc -O1 -gdwarf-3", "clang -O2", "clang -O0 -gdwarf-4"])
def test_a_void_function_has_no_retval(words: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, *words.split(), "-g")
    assert said(path, "none") == [f"error: there is no retval of uretprobe:FILE:none: {NO_VALUE}"]
    assert said(path, "some") == []
    assert said(path, "none", "some") == [f"warning: there is no retval of uretprobe:FILE:none: {NO_VALUE}"]


@pytest.mark.parametrize("words", ["clang -O2", "clang -O1 -gdwarf-4", "gcc -O2"])
def test_a_result_that_no_caller_reads_and_the_compiler_left_out_is_no_retval(words: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, *words.split(), "-g")
    name = "dropped.isra.0" if "gcc" in words else "dropped"
    assert said(path, name) == [f"error: there is no retval of uretprobe:FILE:{name}: {UNUSED}"]
    assert said(path, "used" if "clang" in words else "through") == []


def test_a_result_that_the_compiler_computes_or_that_is_handed_on_is_shown(tmp_path: Path) -> None:
    assert said(compiled(tmp_path, "clang", "-O0", "-g"), "dropped", "passed", "used") == []
    assert said(compiled(tmp_path, "clang", "-O2", "-g"), "passed") == []


@pytest.mark.parametrize("words", ["gcc -O1 -g1", "clang -O1 -gline-tables-only", "gcc -O1"])
def test_without_types_nobody_knows_what_a_function_returns(words: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, *words.split())
    assert said(path, "none") == said(path, "some") == []


def test_methods_constructors_and_templates_are_told_apart(tmp_path: Path) -> None:
    source = (
        "struct A { A(); void m(int); int n() const; int v; }; A::A() { v = 1; } void A::m(int x) { v += x; }"
        " int A::n() const { return v; } template<class T> T t(T x) { return x; }"
        " int main() { A a; a.m(2); return a.n() + t(1); }"
    )
    path = compiled(tmp_path, "g++", "-g", "-O0", source=source, name="a.cc")
    for name, reason in (("_ZN1AC1Ev", NO_VALUE), ("_ZN1A1mEi", NO_VALUE), ("_ZNK1A1nEv", ""), ("_Z1tIiET_S0_", "")):
        found = [each for each in said(path, name) if "retval" in each]
        assert found == ([f"error: there is no retval of uretprobe:FILE:{name}: {reason}"] if reason else [])


@pytest.mark.parametrize("words", ["gcc -O1", "clang -O1"])
def test_a_result_in_a_floating_point_register_is_no_retval(words: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, *words.split(), "-g", source=FLOATS)
    for name in ("half", "third", "quarter", "fifth", "turn", "pair", "vector"):
        assert said(path, name) == [f"error: there is no retval of uretprobe:FILE:{name}: {IN_FLOATS}"]
    assert said(path, "mixed", "triple") == []  # a part of it is in rax; rax has its address


def test_a_class_of_doubles_that_is_returned_in_memory_has_its_address_for_retval(tmp_path: Path) -> None:
    source = (
        "struct A { double v; A(double x); ~A(); }; A::A(double x) { v = x; } A::~A() { v = 0; }"
        " struct B { double v; }; A made(int n) { return A(n); } B plain(int n) { return B{double(n)}; } int main() {}"
    )
    path = compiled(tmp_path, "g++", "-g", "-O1", source=source, name="a.cc")
    assert said(path, "_Z4madei") == []
    assert said(path, "_Z5plaini") == [f"error: there is no retval of uretprobe:FILE:_Z5plaini: {IN_FLOATS}"]


TYPES = r"""
enum color { RED, GREEN }; struct pair { long a, b; }; struct two { double a, b; };
typedef short shorter;
void nothing(int n) {} char letter(int n) { return n; } unsigned number(int n) { return n; }
shorter brief(int n) { return n; } enum color color(int n) { return n; } const char *text(int n) { return ""; }
double half(int n) { return n / 2.0; } struct pair pair(int n) { return (struct pair){n, n}; }
int main(void) { return 0; }
"""


def test_the_type_of_a_result_is_known_where_a_register_holds_it(tmp_path: Path) -> None:
    path = compiled(tmp_path, "gcc", "-O0", "-g", source=TYPES)
    binary = Binary(str(path))

    def result(name: str) -> str:
        (function,) = binary.symbols.named(name)
        entry = site_inside(binary, binary.code.range_of(function), function.address, f"uprobe:{path}:{name}")
        return str(DebugInfo([entry]).result_type(entry))

    names = ("letter", "number", "brief", "color", "text", "nothing", "half", "pair")
    assert {name: result(name) for name in names} == {
        "letter": "int8", "number": "uint32", "brief": "int16", "color": "enum color", "text": "int8 *",
        "nothing": NO_VALUE, "half": IN_FLOATS, "pair": "it is neither a number nor an address",
    }  # fmt: skip
