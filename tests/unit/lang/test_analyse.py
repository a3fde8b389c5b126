"""What the golden files do not show: settings, warnings, sites, the typed program as a value."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from tests.golden.lang.blocks import PARAMS, blocks, files
from tests.unit.lang import invariants
from tests.unit.lang.programs import analysed, faults, rendered, site_of, sites_of
from tracer.errors import ProgramError, Source
from tracer.lang import typed, unsupported
from tracer.lang.analyse import analyse
from tracer.lang.builtins import registry
from tracer.lang.constructs import BuiltinFunction, Value
from tracer.lang.printing.typed import print_typed
from tracer.lang.syntax.parser import parse
from tracer.lang.types import INT64, UINT64, IntType, StringType, TupleType, operations
from tracer.lang.types.combine import LITERAL, SMALL, join
from tracer.results.store import LocalMaps
from tracer.steps.lower import lower
from tracer.steps.python.compile import compile_clause
from tracer.steps.python.runtime import Runtime

OPERANDS = "arg0 arg1 (int64)arg2 (int8)arg3 (uint16)arg1 1 -1 pid $v $w (arg0==1)"
ASSIGNED = st.sampled_from(OPERANDS.split())
OPERATORS = st.sampled_from([*operations.ARITHMETIC, *operations.COMPARISON, "&&", "||"])
EXPRESSIONS = st.recursive(
    ASSIGNED,
    lambda inner: st.one_of(
        st.tuples(inner, OPERATORS, inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(st.sampled_from("-~!"), inner).map("({0[0]} {0[1]})".format),
        st.tuples(st.sampled_from(["(int32)", "(uint64)", "(bool)", "(int64)"]), inner).map("".join),
        st.tuples(inner, inner, inner).map(lambda parts: "({} ? {} : {})".format(*parts)),
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_any_expression_keeps_the_promises_of_the_typed_program(one: str, other: str) -> None:
    text = f"""usdt:/bin/app:order {{
        $v = (int64)1; $w = arg1;
        if ({one}) {{ @x[{one}] = {other}; @s = sum({one}); $v += {other}; }}
    }}"""
    try:
        program = analysed(text)
    except ProgramError as error:
        said = [found.message for found in error.diagnostics if found.severity == "error"]
        faults = re.compile(r"division by zero|'\?' has .*|-?\d+ is not a valid shift count")
        assert all(map(faults.fullmatch, said)), said
    else:
        invariants.check(program)


@pytest.mark.parametrize("text", [block.program for path in files("dumps") for block in blocks(path)])
def test_golden_programs_keep_the_promises_of_the_typed_program(text: str) -> None:
    invariants.check(analysed(text, *PARAMS))


@given(st.integers(0, 1 << 20), st.integers(0, 1 << 20), st.sampled_from(sorted(operations.ARITHMETIC)))
def test_small_literals_fold_as_python_computes_them(left: int, right: int, op: str) -> None:
    if right == 0 and op in "/%":
        return
    program = analysed(f"BEGIN {{ @x = {left} {op} {right % 40 if op in ('<<', '>>') else right}; }}")
    statement = program.clauses[0].body[0]
    assert isinstance(statement, typed.MapSet) and isinstance(statement.value, typed.IntLit)
    shift = right % 40 if op in ("<<", ">>") else right
    exact = {"/": left // max(1, right), "%": left % max(1, right)}.get(op)
    assert statement.value.value == (exact if exact is not None else eval(f"{left} {op} {shift}"))


def test_settings_come_from_the_program_and_the_environment_wins() -> None:
    source = Source("config = { max_strlen = 64; max_map_keys = 10 } usdt:/bin/app:order { @[str(arg0)] = 1; }")
    program = parse(source)
    environment = {"BPFTRACE_MAX_STRLEN": "128", "TRACER_STACK_FRAMES": "5", "MAX_MAP_KEYS": "7", "HOME": "/"}
    result = analyse(program, sites_of(program), environment)
    assert result.config == typed.Config(max_strlen=128, max_map_keys=10, stack_frames=5)
    assert result.maps["@"].key == (StringType(128),)


def test_a_wrong_environment_is_named() -> None:
    program = parse(Source("BEGIN { }"))
    with pytest.raises(ProgramError, match=r"not 'x' \(environment variable BPFTRACE_MAX_STRLEN\)"):
        analyse(program, {}, {"BPFTRACE_MAX_STRLEN": "x"})


def test_warnings_stand_in_the_program() -> None:
    text = "config = { unstable_addr = 1 } usdt:/bin/app:order /arg0 >= 0/ { arg1; }"
    assert rendered(Source(text), analysed(text).warnings) == (
        "warning: the setting unstable_addr has no effect any more\n"
        f"  {text}\n"
        "             ^^^^^^^^^^^^^^^^^\n"
        "  hint: leave it out\n"
        "warning: this is always true: arg0 is unsigned\n"
        f"  {text}\n"
        "                                                      ^^^^^^^^^\n"
        "  hint: write (int64)arg0\n"
        "warning: the value is not used\n"
        f"  {text}\n"
        "                                                                   ^^^^\n"
        "  hint: assign it, or print it with print()\n"
    )


def test_warnings_come_with_errors_in_the_order_of_the_text() -> None:
    found = faults("usdt:/bin/app:order /arg0 < 0/ { @ = foo; }").splitlines()
    assert [line for line in found if line.startswith(("warning", "error"))] == [
        "warning: this is always false: arg0 is unsigned",
        "error: unknown name 'foo'",
    ]


def test_an_argument_that_some_sites_have_is_accepted() -> None:
    program = parse(Source("usdt:/bin/app:order, usdt:/bin/app:bare { @ = arg4; }"))
    assert [len(site.args) for site in sites_of(program)[0]] == [5, 0]
    analyse(program, sites_of(program))


def test_arguments_are_not_counted_without_sites() -> None:
    program = parse(Source("usdt:/bin/app:order { @ = arg99; }"))
    (clause,) = analyse(program, {}).clauses
    assert clause.sites == ()


def test_ret_sites_are_returns_too() -> None:
    from dataclasses import replace

    program = parse(Source("uretprobe:/bin/app:f { @ = retval; }"))
    site = replace(site_of(program.clauses[0].points[0]), kind="ret")
    (clause,) = analyse(program, {0: (site,)}).clauses
    assert clause.sites == (site,)


def test_a_clause_of_several_kinds_has_one_clause_each_with_its_own_sites() -> None:
    program = analysed("interval:s:1, usdt:/bin/app:order, interval:ms:5, uprobe:/bin/app:f { $x = 1; @ = $x; }")
    assert [(c.id, c.kind.name, c.period_ns, len(c.sites), c.slots) for c in program.clauses] == [
        (0, "interval", 1_000_000_000, 1, (INT64,)),
        (1, "probe", 0, 2, (INT64,)),
        (2, "interval", 5_000_000, 1, (INT64,)),
    ]


def test_probe_and_func_hold_the_longest_name() -> None:
    program = analysed("usdt:/bin/app:o, usdt:/bin/app:a_longer_one { @p = probe; @f = func; }")
    assert program.maps["@p"].value == StringType(len("usdt:/bin/app:shop:a_longer_one") + 1)
    assert program.maps["@f"].value == StringType(len("checkout") + 1)


def test_formats_and_shapes_are_shared() -> None:
    program = analysed('BEGIN { printf("a\\n"); printf("b\\n"); printf("a\\n"); print(1); print(2); print("x"); }')
    assert program.formats == ("a\n", "b\n")
    assert program.shapes == (INT64, StringType(2))


def test_a_format_keeps_bytes_that_are_no_utf8() -> None:
    (format,) = analysed('BEGIN { printf("\\xff"); }').formats
    assert format.encode("utf-8", "surrogateescape") == b"\xff"


def test_a_long_chain_of_dependent_maps_is_typed() -> None:
    body = " ".join(f"@m{n} = @m{n + 1};" for n in range(40))
    program = analysed(f'BEGIN {{ {body} @m40 = "text"; }}')
    assert {decl.value for decl in program.maps.values()} == {StringType(5)}


EXAMPLES: dict[str, Value | BuiltinFunction] = {**registry.VALUES, **registry.FUNCTIONS}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_built_in_has_help_and_an_example_that_means_it(name: str) -> None:
    built_in = EXAMPLES[name]
    probe = {"return": "uretprobe", "call": "call"}.get(built_in.place, "uprobe")
    declared, end, example = built_in.example.rpartition("}; ")
    text = f"{declared}{end}{probe}:/bin/app:f {{ {example} }} END {{ @x[1] = 1; @start[tid] = nsecs; }}"
    # /bin/app has no variables and no lines: others have a file that does. Nor has every machine a cgroup.
    if name in ("fail", "uaddr", "cgroupid", "line", "file", "traced", "curtask"):
        with pytest.raises(ProgramError):
            analysed(text)
        return
    program = analysed(text, unsafe=True)
    asserts = name.startswith(("static_assert", "assert_"))
    assert built_in.help and name in built_in.example and (program.clauses[0].body or asserts)


def test_literals_and_small_values_join_with_either_sign() -> None:
    others = (LITERAL, SMALL, INT64, UINT64, IntType(8, False))
    assert [join(LITERAL, other) for other in others] == [LITERAL, SMALL, INT64, UINT64, UINT64]
    assert [join(SMALL, other) for other in others] == [SMALL, SMALL, INT64, UINT64, UINT64]


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (INT64, UINT64, INT64),
        (IntType(8, True), UINT64, INT64),
        (IntType(32, True), IntType(32, False), INT64),
        (IntType(16, True), IntType(8, False), IntType(16, True)),
        (IntType(8, True), IntType(16, False), IntType(32, True)),
        (IntType(8, True), IntType(32, True), IntType(32, True)),
        (StringType(3), StringType(16), StringType(16)),
        (StringType(3), INT64, None),
        (TupleType((LITERAL, StringType(2))), TupleType((UINT64, StringType(9))), TupleType((UINT64, StringType(9)))),
        (TupleType((INT64,)), TupleType((INT64, INT64)), None),
        (TupleType((INT64,)), TupleType((UINT64,)), TupleType((INT64,))),
    ],
)
def test_two_types_join_in_the_smallest_that_holds_both(left: object, right: object, common: object) -> None:
    assert join(left, right) == join(right, left) == common  # type: ignore[arg-type]



CHAINS = {
    "statements": ("@m{} = @m{};", '@m{} = "abc";', "BEGIN {{ {} }}"),
    "clauses": ("BEGIN {{ @m{} = @m{}; }}", 'BEGIN {{ @m{} = "abc"; }}', "{}"),
    "variables": ("$v{0} = @m{1}; @m{0} = $v{0};", '@m{} = "abc";', "BEGIN {{ {} }}"),
    "a block": ("@m{} = @m{};", '@m{} = "abc";', "BEGIN {{ if (nsecs > 1) {{ {} }} }}"),
    "keys": ("for ($k{0} : @m{1}) {{ @m{0}[$k{0}.0] = 1; }}", '@m{}["abc"] = 1;', "BEGIN {{ {} }}"),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_types_follow_a_chain_of_any_length(chain: str) -> None:
    step, last, around = CHAINS[chain]
    steps = [step.format(number, number + 1) for number in range(400)]
    program = analysed(around.format(" ".join([*steps, last.format(400)])))
    invariants.check(program)
    assert {str(map.key[0] if chain == "keys" else map.value) for map in program.maps.values()} == {"string[4]"}
    assert len(program.maps) == 401


def test_a_chain_to_what_depends_on_itself_is_followed() -> None:
    text = " ".join(f"@m{number} = @m{number + 1};" for number in range(300))
    program = analysed(f"BEGIN {{ {text} @m300 = @m300 + 1; @n = @m0; }}")
    assert {map.value for map in program.maps.values()} == {INT64}
    assert len(program.clauses[0].body) == 302


def test_options_are_those_of_getopt() -> None:
    text = 'BEGIN { print((getopt("n", 5), getopt("s", "x"), getopt("b"), $1)); }'
    program = analysed(text, "--n=0x10", "7", "--b", "--s=y", "--s=")
    assert "tuple(16:int64, \"\":string[1], true:bool, 7:int64)" in print_typed(program)
    assert "tuple(5:int64, \"x\":string[2], false:bool, 0:int64)" in print_typed(analysed(text))
    for wrong in ("--n", "--n=", "--n=x", "--s", "--b=2"):
        assert f"error: the option {wrong.partition('=')[0]} takes " in faults(text, wrong)
    assert "error: the program has no option --z\n" in faults(text, "--z=1")
    described = 'BEGIN { print((getopt("n", 5, "how many"), getopt("all"))); }'
    assert "hint: it has --all, --n (how many)\n" in faults(described, "--help")
    assert "hint: it calls no getopt()" in faults("BEGIN { }", "--z=1")


DEFINED = (
    "macro W(x) { x + 70 } BEGIN { @y = W(7); }",
    "macro W() { 77 } BEGIN { @y = (W() + W) / 2; }",
    "macro W(@m) { @m = 77; } BEGIN { W(@y); }",
    "fn W($a: int64): int64 { return $a + 70; } BEGIN { @y = W(7); }",
    "macro m(W) { W + 70 } BEGIN { @y = m(7); }",
    "BEGIN { @W[1] = 77; @y = @W[1]; clear(@W); }",
    "BEGIN { let $W = 77; @y = $W; }",
    "#define W 77\nBEGIN { @y = W; }",
)
"""Definitions of a word, W, by a program: @y is 77."""


@pytest.mark.parametrize("text", DEFINED)
def test_what_a_program_defines_wins_over_what_is_built_in(text: str) -> None:
    words = {*registry.VALUES, *registry.FUNCTIONS, *unsupported.BUILTINS, *unsupported.FUNCTIONS, "arg0", "args"}
    for word in sorted(words - {"config"}):  # a word of the syntax
        program = analysed(re.sub(r"\bW\b", word, text))
        assert program.warnings == (), word
        clause, store = program.clauses[0], LocalMaps(program)
        compile_clause(program, clause, lower(program, clause), None, Runtime(store, print))(())
        assert store.snapshot("@y").items == {(): 77}, word


def test_only_the_side_that_comptime_chooses_is_looked_at() -> None:
    text = 'BEGIN { if comptime (1 == 1) { @a = 1; } else { @b = nosuch(); } @c = comptime 0 ? nosuch : "x"; }'
    plain = analysed(text)
    assert sorted(plain.maps) == ["@a", "@c"]
    by_type = 'macro kind(x) { if comptime is_str(x) { "text" } else { x + 1 } } '
    by_type += "BEGIN { @a = kind(comm); @b = kind(@c); @c = 3; }"
    assert str(analysed(by_type).maps["@a"].value) == "string[5]"
    assert "known before the first hit" in faults("BEGIN { $x = 1; if comptime $x { } }")


def test_a_function_without_calls_may_read_what_begin_does_not_know() -> None:
    function = (
        "fn f(): int64 { @lib[ustack, func] = count(); $n = args.n; if ($n->w) { return $n->v; }"
        " return retval + arg0 + reg(\"ip\") + *(int32 *)arg1; }"
    )
    program = analysed(f"{function} BEGIN {{ }}")
    assert not program.warnings and len(program.clauses) == 1


def test_a_function_without_calls_is_checked() -> None:
    with pytest.raises(ProgramError, match="unknown name 'nosuch'"):
        analysed("fn f(): int64 { $x = arg0; return nosuch; } BEGIN { }")
