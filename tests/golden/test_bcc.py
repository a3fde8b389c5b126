"""The C that a program becomes, whole: the files in `bcc/`.

    TRACER_WRITE_GOLDENS=1 pytest tests/golden/test_bcc.py     writes them anew; read the difference before committing
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe, site
from tracer.backends.bcc.codegen.generate import generate
from tracer.backends.bcc.compile.compiler import compile_text
from tracer.resolve.model import Reg

FILES = Path(__file__).parent / "bcc"

PROGRAMS = {
    "count": "{ @ = count(); }",
    "string_key": "/arg0 > 5/ { @[str(arg1)] = count(); }",
    "arguments": "{ @[arg0, arg2, arg3, arg4, arg5, arg6] = count(); }",
    "aggregations": "{ @h[arg0] = hist(arg1); @l = lhist(arg1, -10, 10, 2); @s = sum(arg0); @lo = min(arg0); "
    "@hi[tid] = max(arg1); @a = avg(arg1); }",
    "latency": "/@start[tid]/ { @ns = hist(nsecs - @start[tid]); delete(@start, tid); @start[tid] = nsecs; }",
    "arithmetic": "{ $a = (int64)arg0 / 3; $b = $a % -2; $c = (uint8)$b << 9; $d = ($a > 1 && @n > 2) || !$c; "
    "$e = $a++ + $a; @n = $d ? $e : -$b; }",
    "strings": '{ $s = str(arg1, 16); @s = $s; if ($s == "coffee beans" || strncmp(str(arg1), "tea", 3) == 0) '
    '{ @[comm, probe, func] = count(); } @o = arg0 > 1 ? "big" : "small"; }',
    "user_text": '{ printf("%s %s\\n", "*/ }; int x; /*", str(arg1)); @["\\"; exit(1); //"] = count(); }',
    "events": '{ printf("%d %s %s\\n", arg0, str(arg1), ustack(3)); print((arg0, 1)); time("%H\\n"); }',
    "control": "{ @[arg0] = count(); print(@, 3); clear(@); zero(@); if (arg0 == 7) { exit(2); } }",
    "loops": "{ $i = 0; while ($i < 10) { $i++; if ($i == 5) { continue; } @ = sum($i); } unroll(2) { @u++; } "
    "return; }",
    "tuples": "{ $t = (arg0, (str(arg1), 3)); @t = $t; @[$t.1] = count(); @k[ustack(4), usym(arg1)] = count(); }",
    "sized": "{ @[str(arg1, arg2)] = count(); @[str(arg1, arg2)] = count(); @[str(arg1, arg2 + 1)] = count(); }",
    "read_once": '/str(arg1, 16) != "tea"/ { @c[str(arg1)] = count(); @h[arg0, str(arg1)] = hist(arg0); '
    'if (arg0 > 3) { @k[str(arg1 + 8, 16)] = count(); } @k[str(arg1 + 8, 16)] = count(); @k[str(arg1, 16)] = count(); '
    'printf("%s\\n", str(arg1)); }',
    "length": "{ @[arg0] = arg1; if (len(@) > 3) { delete(@, arg0); } if (has_key(@, 4)) { @seen++; } }",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_becomes_this_c(name: str) -> None:
    text = generate(plan_of(probe(PROGRAMS[name]))).text
    file = FILES / f"{name}.c"
    if os.environ.get("TRACER_WRITE_GOLDENS"):
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("sleepable", [True, False], ids=["sleepable", "quick"])
def test_that_c_compiles(name: str, sleepable: bool) -> None:
    compiled = compile_text((FILES / f"{name}.c").read_text(), sleepable=sleepable)
    assert list(compiled.functions) == ["probe_0"]


def test_a_program_that_follows_asks_first_who_is_there() -> None:
    text = generate(replace(plan_of(probe("{ @ = count(); }")), follow=True)).text
    file = FILES / "follow.c"
    if os.environ.get("TRACER_WRITE_GOLDENS"):
        file.write_text(text)
    assert text == file.read_text()
    for sleepable in (True, False):
        assert sorted(compile_text(text, sleepable=sleepable).functions) == ["follow_new_task", "probe_0"]


def test_sites_that_keep_their_arguments_elsewhere_have_a_function_each() -> None:
    sites = (site(), site(arguments=((8, False, Reg("r9")),)), site())
    text = generate(plan_of(probe("{ @[arg0] = count(); }"), *sites)).text
    assert "/* clause 0, 2 sites */\nint probe_0(" in text
    assert "/* clause 0, 1 site */\nint probe_1(" in text
    assert "REGISTER(di)" in text and "REGISTER(r9)" in text


def test_no_text_of_the_user_reaches_the_c() -> None:
    text = (FILES / "user_text.c").read_text()
    assert "int x" not in text and "exit(1)" not in text
