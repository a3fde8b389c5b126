"""Who can call itself, as read off its code."""

from __future__ import annotations

import pytest

from tests.unit.resolve.conftest import Build
from tracer.resolve.binary import Binary
from tracer.resolve.functions.lookup import find_functions
from tracer.resolve.safety.recursion import Recursion
from tracer.resolve.safety.returns import ReturnPlan, plan_return

SOURCE = r"""
#define KEPT __attribute__((noinline, noclone))
int (*volatile somebody)(int);
int puts(const char *);
KEPT int leaf(int n) { __asm__ volatile("" : "+r"(n)); return n * 3; }
KEPT int above(int n) { int x = leaf(n); __asm__ volatile("" : "+r"(x)); return x + 1; }
KEPT int itself(int n) { int x = n > 0 ? itself(n - 1) : 0; __asm__ volatile("" : "+r"(x)); return x + 1; }
int ping(int n);
KEPT int pong(int n) { int x = ping(n - 1); __asm__ volatile("" : "+r"(x)); return x + 1; }
KEPT int ping(int n) { int x = n > 0 ? pong(n) : 0; __asm__ volatile("" : "+r"(x)); return x + 1; }
KEPT int outward(int n) { int x = puts("x") + n; __asm__ volatile("" : "+r"(x)); return x; }
KEPT int through(int n) { int x = somebody(n) + n; __asm__ volatile("" : "+r"(x)); return x; }
"""
MAIN = "int main(int c, char **v) { return above(c) + itself(c) + ping(c) + outward(c) + through(c); }\n"

ANSWERS = {
    "leaf": False, "above": False, "itself": True, "ping": True, "pong": True, "outward": None, "through": None,
}  # fmt: skip


@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O2", "-fno-pie", "-no-pie"), ("-Os", "-fcf-protection")])
@pytest.mark.parametrize("shared", [False, True])
def test_who_calls_itself_is_known(build: Build, flags: tuple[str, ...], shared: bool) -> None:
    text = SOURCE if shared else SOURCE + MAIN
    more = ("-shared", "-fPIC") if shared else ()
    binary = Binary(str(build(text, *flags, "-fno-optimize-sibling-calls", *more)))
    recursion = Recursion(binary.code)
    for name, answer in ANSWERS.items():
        (function,) = find_functions(binary, name)
        assert recursion.of(function) is answer, name
        alone = recursion.of(function, alone=True)
        assert alone is answer or alone is None, name


def test_what_calls_itself_is_probed_where_it_returns(build: Build) -> None:
    binary = Binary(str(build(SOURCE + MAIN, "-O2")))
    recurs = Recursion(binary.code).of
    for name, answer in ANSWERS.items():
        (function,) = find_functions(binary, name)
        found = plan_return(binary.code, binary.unwinding, function, recursion=recurs)
        if answer:
            assert found.kind == "ret" and not found.nests
        else:
            assert found == ReturnPlan("uretprobe", (function.address,), nests=answer is None)
