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


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("till")
    (folder / "till.c").write_text(TILL_C)
    for name, flags in {"pie": ["-g"], "fixed": ["-g", "-no-pie"], "bare": []}.items():
        subprocess.run(["gcc", "-w", "-O1", *flags, "till.c", "-o", name], cwd=folder, check=True)
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


def test_where_a_function_returns_no_variable_is_known(backend: str, builds: Path, clean: None) -> None:
    program = f"uretprobe:{builds / 'pie'}:sell {{ print(uaddr(\"owed\")); }}"
    done = tracer("run", "--backend", backend, "-e", program)
    assert done.status == 2
    assert "error: uaddr() is not known when the function returns" in done.err
