"""The C that a program becomes: of five programs whole (the files in `bcc/`), of others what matters in it.

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
from tracer.backends.bcc.compile.disassemble import count
from tracer.kinds.site import FileSite, Reg

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
    "everything": '{ $s = str(arg1, 16); printf("%s %d %s\\n", $s, arg0, str(arg1)); '
    '@[str(arg1), $s == "tea"] = count(); '
    'if (arg0 > 3 && strcontains(str(arg1), "x")) { @m[tid] = max(arg3); print((1, str(arg1 + 8), ustack(3))); } '
    '@o = arg0 > 1 ? str(arg1) : "small"; for ($i : 0..3) { @n[probe]++; } clear(@m); exit(); }',
    "walk": '{ @[str(arg1, 100)] = arg0; $s = 0; for ($kv : @) { if ($kv.1 == 3) { break; } $s += $kv.1; '
    'for ($i : @i) { if (str(arg1, 8) == $kv.0) { return; } delete(@i, $i.0); } } clear(@); @i[$s] = $s; }',
    "length": "{ @[arg0] = arg1; if (len(@) > 3) { delete(@, arg0); } if (has_key(@, 4)) { @seen++; } }",
}


WHOLE = ("count", "string_key", "latency", "everything", "walk")


def c_of(body: str, *sites: FileSite) -> str:
    """The functions that a probe becomes."""
    return generate(plan_of(probe(body), *sites)).text.partition('#include "prelude.h"')[2]


@pytest.mark.parametrize("name", WHOLE)
def test_a_program_becomes_this_c(name: str) -> None:
    text = generate(plan_of(probe(PROGRAMS[name]))).text
    file = FILES / f"{name}.c"
    if os.environ.get("TRACER_WRITE_GOLDENS"):
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("sleepable", [True, False], ids=["sleepable", "quick"])
def test_what_programs_become_compiles(name: str, sleepable: bool) -> None:
    compiled = compile_text(generate(plan_of(probe(PROGRAMS[name]))).text, sleepable=sleepable)
    assert [each for each in compiled if "_each_" not in each] == ["probe_0"]


@pytest.mark.parametrize(
    ("body", "most"),
    [("@ = count();", 14), ("@ = hist(arg0);", 61), ("@[arg0 & 15] = count();", 26), ("@[str(arg1)] = count();", 307)],
)
def test_the_standard_one_liners_take_so_many_instructions(body: str, most: int) -> None:
    compiled = compile_text(generate(plan_of(probe(f"{{ {body} }}"))).text, sleepable=True)
    assert count(compiled["probe_0"]) <= most


def test_a_program_that_follows_asks_first_who_is_there() -> None:
    text = generate(replace(plan_of(probe("{ @ = count(); }")), shared=True)).text
    assert "#define FOLLOWED MAP(1001)\n#define FIXED_SET 1\n" in text and "return note_new_task(task);" in text
    follows = generate(replace(plan_of(probe("{ @ = count(); }")), follow=True, shared=True)).text
    assert follows == text.replace("#define FIXED_SET 1\n", "")
    for each, sleepable in ((follows, True), (follows, False), (text, True)):
        assert sorted(compile_text(each, sleepable=sleepable)) == ["follow_new_task", "probe_0"]


def test_sites_that_keep_their_arguments_elsewhere_have_a_function_each() -> None:
    sites = (site(), site(arguments=((8, False, Reg("r9")),)), site())
    text = generate(plan_of(probe("{ @[arg0] = count(); }"), *sites)).text
    assert "/* clause 0, 2 sites */\nint probe_0(" in text
    assert "/* clause 0, 1 site */\nint probe_1(" in text
    assert "key_0[0] = (s64)(s32)REGISTER(di);" in text and "key_0[0] = (s64)REGISTER(r9);" in text


def test_no_text_of_the_user_reaches_the_c() -> None:
    text = generate(plan_of(probe(PROGRAMS["user_text"]))).text
    assert "int x" not in text and "exit(1)" not in text


READ = "read_user_text(scratch->b_128_0_0, 1024"


def test_a_string_is_read_right_into_the_key_that_it_becomes() -> None:
    text = c_of("{ @[str(arg1)] = count(); }")
    assert READ in text and "counter_add(MAP(4), scratch->b_128_0_0, 1" in text and "copy" not in text
    text = c_of("{ @[arg0, str(arg1)] = count(); }")
    assert "read_user_text(scratch->b_129_1_0 + 1, 1024" in text and "copy" not in text


def test_a_string_of_several_keys_is_read_once_and_copied_to_those_that_are_more_than_it() -> None:
    text = c_of("{ @a[str(arg1)] = count(); @b[str(arg1)] = sum(arg0); @c[1, str(arg1)] = count(); }")
    assert text.count("read_user_text") == 1 and text.count("copy_lines") == 1


def test_either_arm_of_a_choice_is_made_where_the_choice_goes() -> None:
    text = c_of('{ @[arg0 > 1 ? str(arg1) : "none"] = count(); }')
    assert READ in text and "copy" not in text


def test_what_only_a_record_needs_is_read_into_it_in_its_turn() -> None:
    text = c_of('{ printf("%s %s %d\\n", str(arg1, 8), str(arg1), arg0); print((1, ustack(3))); }')
    assert text.count("(char *)scratch->record") == 3 and "copy" not in text
    assert text.index("read_sized_text") < text.index("read_user_text") < text.index("walk_stack")


def test_two_records_at_once_keep_out_of_each_others_way() -> None:
    text = c_of('{ $s = str(arg1); printf("%d\\n", arg0); printf("%s\\n", str(arg1 + 8)); printf("%s\\n", $s); }')
    assert READ in text  # the string of the last record, which is not there before the one before it has gone
    assert text.count("copy_kernel_text") == 1


def test_a_string_that_is_not_in_its_turn_is_copied() -> None:
    text = c_of('{ $s = str(arg1); printf("%s %s\\n", str(arg1 + 8), $s); }')
    # $s is read first and stands second: it cannot be where it belongs before the first one's length is known.
    assert text.index(READ) < text.index("(char *)scratch->record + at") and text.count("copy_kernel_text") == 1


@pytest.mark.parametrize(
    ("body", "early"),
    [
        ("/arg0 > 5/ { @[str(arg1)] = count(); }", False),
        ('/str(arg1) != "tea"/ { @[str(arg1)] = count(); }', True),
        ('/str(arg1, 16) != "tea"/ { @[str(arg1)] = count(); }', False),
        ('/comm != "tea"/ { @[comm, str(arg1)] = count(); }', False),
    ],
)
def test_the_scratch_slot_is_taken_behind_a_predicate_that_does_not_need_it(body: str, early: bool) -> None:
    text = c_of(body)
    assert (text.index("scratch_take()") < text.index("goto done;")) == early


def test_a_function_without_scratch_memory_takes_none() -> None:
    assert "scratch" not in c_of("/arg0 > 5/ { @[comm] = count(); }")


def test_a_variable_is_copied_only_where_it_changes_before_its_last_use() -> None:
    head, step = '{ $s = "abcde"; for ($i : 0..3) {', "$s = str(arg1 + $i, 6);"
    assert "(char *)scratch->record + at_1, 6, held_0)" in c_of(f"{head} print($s); {step} }} }}")
    assert "b_1[0] = held_0[0];" in c_of(f"{head} $old = $s; {step} print(($old, $s)); }} }}")


def test_a_cut_is_counted_once_where_a_flag_says_so() -> None:
    text = c_of("{ if (arg0 > 1) { @a = str(arg1); } else { @b = str(arg1); } @c[str(arg1)] = count(); }")
    assert "u64 told0 = 0;" in text and text.count("told0 = check_cut(") == 3


@pytest.mark.parametrize(
    ("expression", "c"),
    [
        ("-(-arg0)", "-(-"),
        ("arg0 - (arg0 - 1)", "- ((s64)"),
        ("(arg0 & 3) + 1", "& 3LL) + 1LL"),
        ("arg0 & (3 + arg0)", "& ((s64)"),
        ("(arg0 > 1) == (arg3 > 2)", "(s64)("),
        ("(uint8)(arg0 + 1)", "(u8)("),
    ],
)
def test_operators_are_put_together_as_they_were_meant(expression: str, c: str) -> None:
    assert c in c_of(f"{{ @x[arg0] = {expression}; }}")


def test_no_signed_numbers_are_divided() -> None:
    text = c_of("{ @[arg0 / arg3, arg0 % arg3, arg1 / arg1] = count(); }")
    assert "divide_signed(" in text and "remainder_signed(" in text and " / " not in text and " % " not in text


def test_two_equal_keys_that_follow_each_other_are_both_written() -> None:
    text = c_of("{ @[arg0, str(arg1, 8)] = count(); @[arg0, str(arg1, 8)] = count(); }")
    assert text.count("[0] = (s64)(s32)REGISTER(di);") == 2 and text.count("read_sized_text") == 1
