"""Variables of the traced program (`uaddr`), on both backends, against what the program says of them itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.cli import tracer

pytestmark = pytest.mark.live

TILL_C = r"""
#include <stdio.h>
int owed = -5;
unsigned char rate = 200;
short change = -3;
static long sold = 40;
double price = 2.5;
char shop[16] = "corner shop";
struct clerk { int number, hours; const char *name; } clerk = {3, 4, "Ada"};
__thread int thread_local_number = 9;
__attribute__((noinline)) void sell(int amount) { sold += amount; owed -= amount; __asm__ volatile(""); }
__attribute__((noinline)) void pass_on(int amount) { sell(amount); }
int main(void)
{
    for (int i = 1; i <= 4; i++) {
        printf("%d %d %d %ld %s %d %s\n", owed, rate, change, sold, shop, clerk.number, clerk.name);
        fflush(stdout);
        clerk.number += thread_local_number;
        sell(i);
    }
}
"""


SHOP_CC = r"""
#include <cstdio>
template <typename T> struct Box { static T value; };
template <> int Box<int>::value = 12;
namespace shop {
int sold = 7;
static int hidden = 3;
struct Cart { static double total; static unsigned char full; };
double Cart::total = 99.5;
unsigned char Cart::full = 200;
float rate = 2.5;
namespace { int own = 5; }
__attribute__((noinline)) int sell(int amount) { sold += amount; hidden++; own++; return sold + hidden + own; }
void show() {
  printf("(%d, %d, %d, %d, ", sold, hidden, own, Box<int>::value);
  printf("%g, %d, %g)\n", Cart::total, Cart::full, rate);
}
}
int main() { for (int i = 0; i < 2; i++) { shop::show(); shop::sell(1); } }
"""


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("till")
    (folder / "till.c").write_text(TILL_C)
    for name, flags in {"pie": ["-g"], "fixed": ["-g", "-no-pie"], "bare": []}.items():
        options = ["-w", "-O1", "-foptimize-sibling-calls", *flags]
        subprocess.run(["gcc", *options, "till.c", "-o", name], cwd=folder, check=True)
    return folder


def shown(backend: str, till: Path, body: str) -> list[str]:
    """What the program printed of itself, and what the trace did."""
    done = tracer("-q", "--backend", backend, "-e", f"uprobe:{till}:sell {{ {body} }}", "-c", str(till))
    assert (done.status, done.err) == (0, "")
    return done.printed.decode().split("\n")


@pytest.mark.parametrize("build", ["pie", "fixed", "bare"])
def test_variables_have_the_values_that_the_program_has(backend: str, builds: Path, clean: None, build: str) -> None:
    body = 'printf("%d %d %d %d %s\\n", *uaddr("owed"), (uint8)*uaddr("rate"), *uaddr("change"), *uaddr("sold"), '
    lines = shown(backend, builds / build, body + 'str(uaddr("shop")));')
    own = [line.rsplit(" ", 2)[0] for line in lines if line.count(" ") > 5]
    assert len(own) == 4
    assert [line for line in lines if line.count(" ") == 5] == own


@pytest.mark.parametrize("build", ["pie", "fixed"])
def test_debug_information_gives_their_types(backend: str, builds: Path, clean: None, build: str) -> None:
    body = 'printf("%d|%s|%f\\n", uaddr("clerk")->number, str(uaddr("clerk")->name), *uaddr("price"));'
    lines = shown(backend, builds / build, body)
    assert [line for line in lines if "|" in line] == [f"{12 + 9 * i}|Ada|2.500000" for i in range(4)]
    body = 'print((*uaddr("rate"), sizeof(*uaddr("clerk"))));'
    assert [line for line in shown(backend, builds / build, body) if line.startswith("(")] == ["(200, 16)"] * 4


@pytest.mark.parametrize(
    ("expression", "reason"),
    {
        'uaddr("nosuch")': "nosuch is not in the symbol table of this file",
        'uaddr("thread_local_number")': "thread_local_number is a thread-local variable",
    }.items(),
)
def test_what_has_no_place_is_said_under_its_name(
    backend: str, builds: Path, clean: None, expression: str, reason: str
) -> None:
    program = f"uprobe:{builds / 'pie'}:sell {{ print({expression}); }}"
    done = tracer("run", "--backend", backend, "-e", program)
    assert (done.status, done.out) == (2, b"")
    name = expression.split("(")[1].rstrip(")")
    line = done.err.splitlines()[1]
    assert line.index("^") == program.index(name) and f"{'^' * len(name)} error: {reason}" in line


def test_where_a_function_returns_variables_have_their_new_values(backend: str, builds: Path, clean: None) -> None:
    program = f"uretprobe:{builds / 'pie'}:sell {{ printf(\"%d\\n\", *uaddr(\"owed\")); }}"
    done = tracer("-q", "--backend", backend, "-e", program, "-c", str(builds / "pie"))
    assert (done.status, done.err) == (0, "")
    numbers = [line for line in done.printed.decode().split("\n") if line.lstrip("-").isdigit()]
    assert numbers == ["-6", "-8", "-11", "-15"]


def test_where_only_the_caller_is_probed_no_variable_is_known(backend: str, builds: Path, clean: None) -> None:
    program = f"uretprobe:{builds / 'pie'}:pass_on {{ print(uaddr(\"owed\")); }}"
    done = tracer("run", "--backend", backend, "-e", program)
    assert done.status == 2
    assert "error: uaddr() is not known when the function returns; keep it from a uprobe" in done.err


@pytest.mark.parametrize("compiler", ["g++ -gdwarf-5", "g++ -gdwarf-4", "clang++ -gdwarf-5", "clang++ -gdwarf-4"])
def test_names_of_cpp_are_taken_as_people_write_them(
    backend: str, compiler: str, tmp_path: Path, clean: None
) -> None:
    (tmp_path / "shop.cc").write_text(SHOP_CC)
    subprocess.run([*compiler.split(), "-O1", "shop.cc", "-o", "shop"], cwd=tmp_path, check=True)
    of_class = ("Box<int>::value", "shop::Cart::total", "shop::Cart::full")
    names = ("shop::sold", "shop::hidden", "shop::(anonymous namespace)::own", *of_class, "shop::rate")
    values = ", ".join(f'*uaddr("{name}")' for name in names)
    program = f'uprobe:{tmp_path / "shop"}:"shop::sell" {{ print(({values})); }}'
    done = tracer("-q", "--backend", backend, "-e", program, "-c", str(tmp_path / "shop"))
    assert (done.status, done.err) == (0, "")
    own = [line for line in done.printed.decode().split("\n") if line]
    assert sorted(own) == sorted(2 * ["(7, 3, 5, 12, 99.5, 200, 2.5)", "(8, 4, 6, 12, 99.5, 200, 2.5)"])
