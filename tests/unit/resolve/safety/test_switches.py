"""Files whose stacks are switched or walked by a collector: no return probe holds a return address there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.safety.test_returns import plan, reason, returns_by_objdump
from tracer.resolve.binary import Binary
from tracer.resolve.functions.lookup import find_functions
from tracer.resolve.safety.returns import ReturnPlan, plan_return

SOURCE = r"""
#include <stdlib.h>
#include <unistd.h>
#ifdef SWITCH
void SWITCH(void) { getppid(); }
#else
#define SWITCH getpid
#endif
__attribute__((noinline)) int leaf(int x) { return x * 3; }
__attribute__((noinline)) int waits(int x) { SWITCH(); return x + 1; }
int (*volatile hook)(int);
int tail(int x) { SWITCH(); return hook(x); }
__attribute__((noinline)) int often(int x, char *text)
{
    int sum = x;
    for (int i = 0; i < x; i++) sum += rand() * text[i];
    if (__builtin_expect(sum == 7, 0)) { write(2, text, 7); sum = rand() - sum; if (sum == 3) abort(); }
    return sum + rand();
}
int main(int argc, char **argv) { return leaf(argc) + waits(argc) + (hook ? tail(argc) : 0) + often(argc, argv[0]); }
"""
SWITCHED = "stacks are switched while it runs (the file uses {})"
TAIL = "and its returns cannot all be found: the indirect jump at {} may leave it"


@pytest.mark.parametrize("name", ["swapcontext", "jump_fcontext", "coroutine_transfer", "zend_fiber_switch_context"])
def test_a_file_that_switches_stacks_is_probed_on_each_ret(build: Build, name: str) -> None:
    binary = Binary(str(build(SOURCE, "-O2", f"-DSWITCH={name}")))
    assert binary.unwinding.of_file == SWITCHED.format(name)
    assert plan(binary, "waits") == ReturnPlan("ret", returns_by_objdump(binary.path, "waits"))
    assert plan(binary, "leaf").kind == "uretprobe"  # it calls nothing that could switch
    assert reason(binary, "tail").startswith(f"a return probe on tail could kill the program: {SWITCHED.format(name)};")
    (tail,) = find_functions(binary, "tail")
    assert plan_return(binary.code, binary.unwinding, tail, True).danger == SWITCHED.format(name)


def test_the_same_program_without_a_switch_takes_return_probes(build: Build) -> None:
    binary = Binary(str(build(SOURCE, "-O2")))
    assert {plan(binary, name).kind for name in ("leaf", "waits", "tail", "often")} == {"uretprobe"}


def test_ocaml_is_refused_whatever_the_user_says(build: Build) -> None:
    binary = Binary(str(build(SOURCE, "-O2", "-DSWITCH=caml_frametable")))
    assert plan(binary, "waits").kind == "ret"
    (tail,) = find_functions(binary, "tail")
    with pytest.raises(Exception, match="OCaml's collector finds return addresses by their value"):
        plan_return(binary.code, binary.unwinding, tail, True)


def test_what_a_process_has_loaded_counts_as_much(build: Build) -> None:
    binary = Binary(str(build(SOURCE, "-O2")))
    binary.switching = "greenlet, which process 7 has loaded, switches its stacks"
    assert plan(binary, "waits").kind == "ret"


def test_the_cold_part_of_a_function_is_known_without_its_name(build: Build, tmp_path: Path) -> None:
    """GCC puts what seldom runs elsewhere; a stripped file has no name for it."""
    whole = build(SOURCE, "-O2", "-DSWITCH=swapcontext", "-rdynamic")
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    parts = returns_by_objdump(str(whole), "often") + returns_by_objdump(str(whole), "often.cold")
    named = plan(Binary(str(whole)), "often")
    assert "often.cold" in subprocess.run(["nm", whole], capture_output=True, text=True, check=True).stdout
    assert named.kind == "ret" and sorted(named.addresses) == sorted(parts)
    assert plan(Binary(str(stripped)), "often") == named
    assert "may leave it" in reason(Binary(str(stripped)), "tail")
