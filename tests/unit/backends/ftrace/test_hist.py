from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import pytest

from tests import typed_ir as ir
from tests.unit.backends.ftrace.plans import count, load, probe, site, spec
from tracer.backends.ftrace.compile import compile_plan
from tracer.backends.ftrace.counting.bucket_parts import doubling
from tracer.backends.ftrace.program import FtraceProgram, ProbeEvent
from tracer.backends.ftrace.read.hist_file import _row as parsed_row
from tracer.backends.ftrace.trigger import Column, Feed
from tracer.kinds.site import Clock, Const, Mem, Operand, Reg, Unreadable
from tracer.lang import typed
from tracer.lang.aggregations.buckets import log2_bucket
from tracer.lang.types import BOOL, INT64, UINT8, UINT64, IntType, StringType
from tracer.plan.lower import lower

INT32 = IntType(32, True)

EACH_SECOND = Clock("interval", "interval:s:1", "", (), 0, 10**9)


def program(
    *clauses: typed.Clause, maps: Sequence[typed.MapDecl] | None = None, config: typed.Config | None = None
) -> FtraceProgram:
    decls = [ir.map_of("@", "count", UINT64)] if maps is None else maps
    numbered = [replace(clause, id=number) for number, clause in enumerate(clauses)]
    made = ir.program(numbered, decls)
    return compile_plan(lower(made if config is None else replace(made, config=config)), "%ax")


def event(*clauses: typed.Clause, maps: Sequence[typed.MapDecl] | None = None) -> ProbeEvent:
    (only,) = program(*clauses, maps=maps).events
    return only


def lines(made: ProbeEvent) -> list[str]:
    return [trigger.line for trigger in made.hist]


def add(function: str, value: typed.Expr, *key: typed.Expr, name: str = "@") -> typed.Aggregate:
    return typed.Aggregate(ir.N, name, key, function, value)


def signed(value: typed.Expr) -> typed.Cast:
    return typed.Cast(INT64, ir.N, value)


def at(*operands: Operand, size: int = 8, sign: bool = False) -> typed.Clause:
    """A clause to take the sites from."""
    return probe([], site(args=[spec(operand, size, sign) for operand in operands]))


def test_a_keyed_count_is_one_trigger_with_room_for_the_whole_map() -> None:
    made = event(probe([count(ir.arg(0))]))
    assert lines(made) == ["hist:keys=f0:vals=hitcount:sort=hitcount:size=16384"]
    assert made.hist[0].feeds == ((Feed("@", (Column(0, False),)),),)
    assert (made.reasons, made.counts) == ((), ())


def test_a_sum_without_a_key_has_one_row() -> None:
    made = event(probe([add("sum", signed(ir.arg(1)))]), maps=[ir.map_of("@", "sum")])
    assert lines(made) == ["hist:keys=common_type:vals=hitcount,f0:sort=hitcount:size=128"]
    assert made.hist[0].feeds == ((Feed("@", (), total=0),),)


def test_maps_of_one_key_share_a_trigger_whatever_the_order_and_sign_of_its_parts() -> None:
    body = [
        count(ir.arg(0), "@c"),
        add("sum", ir.arg(1), signed(ir.arg(0)), name="@s"),
        add("avg", ir.arg(1), ir.arg(0), name="@a"),
        typed.MapAdd(ir.N, "@n", (ir.arg(0),), ir.num(-2)),
    ]
    maps = [
        ir.map_of("@c", "count", UINT64), ir.map_of("@s", "sum", INT64), ir.map_of("@a", "avg", UINT64),
        ir.map_of("@n", "scalar", UINT64),
    ]  # fmt: skip
    made = event(probe(body), maps=maps)
    assert lines(made) == ["hist:keys=f0:vals=hitcount,f1:sort=hitcount:size=16384"]
    assert made.hist[0].feeds == (
        (
            Feed("@c", (Column(0, False),)),
            Feed("@s", (Column(0, True),), total=0),
            Feed("@a", (Column(0, False),), total=0),
            Feed("@n", (Column(0, False),), per_hit=-2),
        ),
    )


def test_constants_in_a_key_take_no_column() -> None:
    key = (ir.num(7), ir.arg(0), ir.text(b"x"), ir.builtin("tid"), ir.builtin("cpu"))
    clause = probe([typed.Aggregate(ir.N, "@", key, "count", None)])
    made = event(clause, maps=[ir.map_of("@", "count", *(part.type for part in key))])
    assert lines(made) == ["hist:keys=f0,common_pid,common_cpu:vals=hitcount:sort=hitcount:size=16384"]
    assert made.hist[0].feeds == ((Feed("@", (7, Column(0, False), b"x", Column(1, False), Column(2, False))),),)


def test_an_argument_that_is_a_constant_is_one() -> None:
    clause = replace(probe([count(signed(ir.arg(0)))]), sites=at(Const(-3), size=4, sign=True).sites)
    made = event(clause, maps=[ir.map_of("@", "count", INT64)])
    assert made.hist[0].feeds == ((Feed("@", (-3,)),),)


def test_each_clause_of_a_place_has_a_trigger_with_its_own_condition() -> None:
    below = ir.op("<", ir.arg(0), ir.num(9, UINT64))
    made = event(probe([count(ir.arg(0))], predicate=below), probe([count(ir.arg(0))]), probe([count(ir.arg(0))]))
    assert lines(made) == [
        "hist:keys=f0:vals=hitcount:sort=hitcount:size=16384 if f0 < 9",
        "hist:keys=f0:vals=hitcount:sort=hitcount:size=16384",
    ]
    assert [len(trigger.feeds[0]) for trigger in made.hist] == [1, 2]


def test_places_with_triggers_of_one_shape_are_branches_of_one_event() -> None:
    by_name = typed.Aggregate(ir.N, "@", (ir.builtin("probe", StringType(64)),), "count", None)
    sites = [replace(site(offset), probe=f"p{offset}") for offset in (1, 2)]
    made = event(probe([by_name], *sites), maps=[ir.map_of("@", "count", StringType(64))])
    assert lines(made) == ["hist:keys=f0:vals=hitcount:sort=hitcount:size=128"]
    assert made.hist[0].feeds == ((Feed("@", (b"p1",)),), (Feed("@", (b"p2",)),))
    assert made.definition(made.places[1], "g", "/a") == "p:g/e0 /a:0x2 f0=\\1:u16"
    parts = made.split()
    assert [lines(part) for part in parts] == [["hist:keys=common_type:vals=hitcount:sort=hitcount:size=128"]] * 2
    assert [part.hist[0].feeds for part in parts] == [((Feed("@", (b"p1",)),),), ((Feed("@", (b"p2",)),),)]


def test_no_more_branches_than_there_are_rows_for() -> None:
    clauses = [probe([count(ir.arg(0))], site(0x1000 * number)) for number in range(1, 11)]
    made = program(*clauses).events
    assert [(len(one.branches), lines(one)) for one in made] == [
        (8, ["hist:keys=f0,f1:vals=hitcount:sort=hitcount:size=131072"]),
        (2, ["hist:keys=f0,f1:vals=hitcount:sort=hitcount:size=32768"]),
    ]


def test_three_fields_leave_no_room_for_the_number_of_a_branch() -> None:
    key = (ir.arg(0), ir.arg(1), ir.builtin("cpu"))
    clauses = [probe([typed.Aggregate(ir.N, "@", key, "count", None)], site(offset)) for offset in (1, 2)]
    maps = [ir.map_of("@", "count", UINT64, UINT64, UINT64)]
    assert [len(one.branches) for one in program(*clauses, maps=maps).events] == [1, 1]


LHIST = ir.map_of("@", "lhist", parameters=(0, 100, 10))


@pytest.mark.parametrize(
    ("size", "sign", "low", "high", "conditions"),
    [
        (8, True, 0, 100, ["f0 < 100", "f0 >= 9223372036854775808", "f0 >= 100 && f0 < 9223372036854775808"]),
        (
            8, False, 20, 100,
            ["f0 >= 20 && f0 < 100", "(f0 < 20 || f0 >= 9223372036854775808)",
             "f0 >= 100 && f0 < 9223372036854775808"],
        ),
        (4, True, 0, 100, ["f0 >= 0 && f0 < 100", "f0 < 0", "f0 >= 100"]),
        (2, False, 0, 100, ["f0 < 100", "f0 >= 100"]),
        (1, False, 20, 300, ["f0 >= 20", "f0 < 20"]),
        (1, True, 20, 128, ["f0 >= 20", "f0 < 20"]),
        (1, True, 130, 200, [""]),
        (1, False, 0, 300, [""]),
    ],
)  # fmt: skip
def test_an_lhist_has_triggers_between_below_and_above_its_ends_as_far_as_the_field_reaches(
    size: int, sign: bool, low: int, high: int, conditions: list[str]
) -> None:
    clause = replace(probe([add("lhist", signed(ir.arg(0)))]), sites=at(Reg("di"), size=size, sign=sign).sites)
    made = event(clause, maps=[replace(LHIST, parameters=(low, high, 10))])
    assert [trigger.condition for trigger in made.hist] == conditions


def test_an_lhist_is_keyed_by_its_buckets_last() -> None:
    clause = probe([add("lhist", ir.arg(1), ir.arg(0))], predicate=ir.op("==", ir.arg(0), ir.num(9, UINT64)))
    made = event(clause, maps=[replace(LHIST, key=(UINT64,), parameters=(0, 50, 10))])
    assert lines(made) == [
        "hist:keys=f0,f1.buckets=10:vals=hitcount:sort=hitcount:size=131072 if f0 == 9 && f1 >= 0 && f1 < 50",
        "hist:keys=f0:vals=hitcount:sort=hitcount:size=16384 if f0 == 9 && f1 < 0",
        "hist:keys=f0:vals=hitcount:sort=hitcount:size=16384 if f0 == 9 && f1 >= 50",
    ]
    key = (Column(0, False),)
    assert [trigger.feeds for trigger in made.hist] == [
        ((Feed("@", key, bucket=Column(1, False)),),), ((Feed("@", key, bucket=0),),), ((Feed("@", key, bucket=6),),),
    ]  # fmt: skip


def test_a_hist_counts_the_powers_of_two_apart_from_all_between_and_below() -> None:
    sites = at(Reg("di"), Reg("si"), size=1, sign=True).sites
    clause = replace(probe([add("hist", ir.arg(0), ir.arg(1))]), sites=sites)
    small = typed.Config(max_map_keys=128)
    maps = [ir.map_of("@", "hist", UINT64)]
    (made,) = program(clause, maps=maps, config=small).events
    alone = (
        "((f0 < 8 && (f0 == 0 || f0 == 1 || f0 == 2 || f0 == 4)) "
        "|| (f0 >= 8 && (f0 == 8 || f0 == 16 || f0 == 32 || f0 == 64)))"
    )
    assert lines(made) == [
        f"hist:keys=f1,f0:vals=hitcount:sort=hitcount:size=1024 if {alone}",
        f"hist:keys=f1,f0.log2:vals=hitcount:sort=hitcount:size=1024 if f0 >= 0 && !{alone}",
        "hist:keys=f1:vals=hitcount:sort=hitcount:size=128 if f0 < 0",
    ]
    key = (Column(0, False),)
    assert [trigger.feeds for trigger in made.hist] == [
        ((Feed("@", key, bucket=Column(1, False)),),), ((Feed("@", key, bucket=Column(1, False)),),),
        ((Feed("@", key, bucket=0),),),
    ]  # fmt: skip


@pytest.mark.parametrize("type", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_each_value_of_a_hist_meets_one_condition_and_falls_into_its_bucket(type: str) -> None:
    bits, sign = int(type[1:]), type[0] == "s"
    edges = {(1 << bit) + more for bit in range(bits + 1) for more in (-2, -1, 0, 1, 2)}
    low, high = (-1 << bits - 1, 1 << bits - 1) if sign else (0, 1 << bits)
    values = [value for edge in edges for value in (edge, -edge) if low <= value < high]
    parts = list(doubling("f0", type))
    tests = [compile(_python(part.condition), part.condition, "eval") for part in parts]
    for value in values:
        (met,) = (part for part, test in zip(parts, tests, strict=True) if eval(test, {"f0": value}))
        if met.column == "f0.log2":  # as hist_field_log2() of the kernel and the listing have it
            text = f"{{ f0: ~ 2^{max(value - 1, 0).bit_length():<2} }} hitcount:          1"
            (first,), _ = parsed_row(text)
            bucket = log2_bucket(first, 0)
        else:
            bucket = met.bucket if met.column is None else log2_bucket(value, 0)
        assert (value, bucket) == (value, log2_bucket(value, 0))


def _python(condition: str) -> str:
    return condition.replace("&&", "and").replace("||", "or").replace("!(", "not (")


MEMORY = at(Mem("ax", 8), Reg("si"))
GONE = at(Unreadable("lost"), Reg("si"))
KEYED = [ir.map_of("@", "sum", UINT64), ir.map_of("@b", "sum", UINT64)]


FOUR = [spec(Reg(name)) for name in ("di", "si", "dx", "cx")]


def _with(kind: str) -> list[typed.MapDecl]:
    return [ir.map_of("@", kind, UINT64)]


def _many(terms: int) -> typed.Expr:
    """A predicate of so many comparisons."""
    made = [ir.op("!=", ir.arg(0), ir.num((1 << 62) + number, UINT64), BOOL) for number in range(terms)]
    return reduce(lambda left, right: ir.op("&&", left, right, BOOL), made)


@pytest.mark.parametrize(
    ("clause", "maps", "reason"),
    [
        (probe([count(ir.arg(0)), typed.PrintValue(ir.N, 0, ir.arg(0))]), None, "its clause does more than aggregate"),
        (
            probe([count(ir.arg(0))], predicate=ir.op("<", ir.arg(0), ir.arg(1))), None,
            "the kernel does not take the whole predicate",
        ),
        (
            probe([add("hist", ir.arg(1), ir.arg(0))]), _with("hist"),
            "max_map_keys times 32 buckets is more than the kernel's 131072 rows",
        ),
        (
            probe([add("hist", ir.arg(1), ir.arg(0))]), [replace(ir.map_of("@", "hist", UINT64), parameters=(2,))],
            "the kernel has no hist() like this one",
        ),
        (
            probe([add("hist", ir.arg(0)), count(name="@n")]),
            [ir.map_of("@", "hist"), ir.map_of("@n", "count")],
            "its clause has other maps beside a hist()",
        ),
        (
            probe([add("hist", ir.arg(0))], predicate=_many(80)), [ir.map_of("@", "hist")],
            "with its predicate the kernel's condition would be too long",
        ),
        (probe([add("min", ir.arg(1), ir.arg(0))]), _with("min"), "the kernel has no min() like this one"),
        (probe([add("max", ir.arg(1), ir.arg(0))]), _with("max"), "the kernel has no max() like this one"),
        (
            probe([count(ir.str_of(ir.arg(0)))]), [ir.map_of("@", "count", StringType(1024))],
            "a key of a string: the kernel pads and cuts it",
        ),
        (
            probe([count(ir.builtin("comm", StringType(16)))]), [ir.map_of("@", "count", StringType(16))],
            "a key of a string: the kernel pads and cuts it",
        ),
        (probe([count(ir.builtin("pid"))]), None, "a key of pid, which is no field of the event"),
        (probe([count(ir.builtin("nsecs"))]), None, "a key of nsecs, which is no field of the event"),
        (probe([count(ir.op("+", ir.arg(0), ir.num(1, UINT64)))]), None, "a key of a computed value"),
        (probe([count(typed.Cast(INT32, ir.N, ir.arg(0)))]), None, "a key of a computed value"),
        (probe([add("sum", load(ir.arg(0)), ir.arg(1))]), KEYED, "a sum of memory: where it cannot be read"),
        (
            replace(probe([count(ir.arg(0))]), sites=MEMORY.sites), None,
            "a key of memory: where it cannot be read the kernel would count it all the same",
        ),
        (
            replace(probe([count(ir.arg(0))]), sites=GONE.sites), None,
            "a key of an argument that cannot be read here",
        ),
        (
            probe([typed.Aggregate(ir.N, "@", tuple(map(ir.arg, range(4))), "count", None)], site(args=FOUR)),
            [ir.map_of("@", "count", *[UINT64] * 4)], "more than 3 keys",
        ),
        (
            probe([add("sum", ir.arg(1), ir.arg(0)), add("sum", ir.arg(0), ir.arg(1), name="@b")]), KEYED,
            "the maps of its clause have different keys",
        ),
        (probe([add("sum", ir.builtin("cpu"), ir.arg(0))]), KEYED, "a sum of something that is no field of the event"),
        (
            probe([add("sum", ir.arg(number), ir.arg(0), name=name) for number, name in enumerate(("@", "@b", "@c"))],
                  site(args=FOUR)),
            [*KEYED, ir.map_of("@c", "sum", UINT64)], "its clause sums more than 2 values",
        ),
        (
            probe([add("lhist", ir.arg(0)), count(name="@n")]),
            [LHIST, ir.map_of("@n", "count")], "its clause has other maps beside an lhist()",
        ),
        (probe([add("lhist", ir.builtin("cpu"))]), [LHIST], "an lhist() of something that is no field of the event"),
        (
            probe([add("lhist", ir.arg(0))]), [replace(LHIST, parameters=(-10, 100, 10))],
            "lhist() does not begin at a multiple of its step from 0 on",
        ),
        (
            probe([add("lhist", ir.arg(0))]), [replace(LHIST, parameters=(5, 100, 10))],
            "lhist() does not begin at a multiple of its step from 0 on",
        ),
        (
            probe([add("lhist", ir.arg(0), ir.arg(1))]), [replace(LHIST, key=(UINT64,))],
            "max_map_keys times 12 buckets is more than the kernel's 131072 rows",
        ),
        (
            probe([add("lhist", ir.arg(0), ir.arg(1), ir.builtin("tid"), ir.builtin("cpu"))]),
            [replace(LHIST, key=(UINT64,) * 3)], "more than 2 keys beside the bucket",
        ),
    ],
)  # fmt: skip
def test_what_a_trigger_would_not_count_as_we_do_is_sampled_and_said(
    clause: typed.Clause, maps: Sequence[typed.MapDecl] | None, reason: str
) -> None:
    made = event(clause, maps=maps)
    assert (made.hist, made.counts) == ((), ())
    assert made.reasons[0][0] == "@"
    assert made.reasons[0][1].startswith(reason)


def test_nothing_is_counted_in_the_kernel_where_a_probe_says_exit() -> None:
    made = program(probe([count(ir.arg(0))]), probe([typed.Exit(ir.N, ir.num(0, UINT8))], site(0x2000)))
    assert [one.hist for one in made.events] == [(), ()]
    assert made.events[0].reasons == (("@", "a probe says exit(), and hits after it must not count"),)


@pytest.mark.parametrize(
    "other",
    [
        typed.PrintMap(ir.N, "@", 0, 0),
        typed.Clear(ir.N, "@"),
        typed.Zero(ir.N, "@"),
        typed.Delete(ir.N, "@", (ir.arg(0),)),
        typed.PrintValue(ir.N, 0, typed.MapIncr(INT64, ir.N, "@", (ir.arg(0),), 1, False)),
        typed.PrintValue(ir.N, 0, typed.MapGet(INT64, ir.N, "@", (ir.arg(0),))),
    ],
)
def test_a_map_that_a_probe_reads_or_changes_otherwise_is_not_in_the_kernel(other: typed.Stmt) -> None:
    made = program(probe([count(ir.arg(0))]), probe([other], site(0x2000)))
    assert all(one.hist == () for one in made.events)
    assert made.events[0].reasons == (("@", "a probe does more with the map than add to it"),)


@pytest.mark.parametrize("statement", [typed.Clear(ir.N, "@"), typed.Delete(ir.N, "@", (ir.num(1),))])
def test_a_keyed_map_that_is_emptied_is_not_in_the_kernel(statement: typed.Stmt) -> None:
    timer = replace(ir.clause([statement], kind="interval"), sites=(EACH_SECOND,))
    made = program(probe([count(ir.arg(0))]), timer)
    reason = "it is cleared or deleted from, and the kernel cannot remove a single row"
    assert made.events[0].reasons == (("@", reason),)


def test_a_map_without_a_field_in_its_key_may_be_emptied() -> None:
    timer = replace(ir.clause([typed.Clear(ir.N, "@")], kind="interval"), sites=(EACH_SECOND,))
    made = program(probe([add("sum", ir.arg(0))]), timer, maps=[ir.map_of("@", "sum")])
    assert [lines(one) for one in made.events] == [["hist:keys=common_type:vals=hitcount,f0:sort=hitcount:size=128"]]


@pytest.mark.parametrize("keys", [64, 1000, 1 << 18])
def test_a_limit_that_no_table_has_keeps_a_keyed_map_in_user_space(keys: int) -> None:
    made = program(probe([count(ir.arg(0))]), config=typed.Config(max_map_keys=keys))
    assert made.events[0].reasons == (("@", "max_map_keys is not a power of two from 128 to 131072"),)


def test_programs_whose_tables_would_take_too_much_of_the_kernels_memory_are_sampled() -> None:
    def of(clauses: int) -> FtraceProgram:
        return program(*(probe([count(ir.arg(0))], site(0x1000 * number)) for number in range(1, clauses + 1)))

    assert [lines(one)[0].rpartition("=")[2] for one in of(16).events] == ["131072", "131072"]
    (only,) = of(17).events
    assert only.reasons == (("@", "its tables would have 278528 rows, more than 262144"),)


def test_a_place_with_one_clause_in_user_space_has_no_triggers() -> None:
    maps = [ir.map_of("@", "count", UINT64), ir.map_of("@h", "hist", UINT64)]
    made = event(probe([count(ir.arg(0))]), probe([add("hist", ir.arg(0), ir.arg(1), name="@h")]), maps=maps)
    assert made.reasons == (
        ("@", "another clause at the same place runs in user space"),
        ("@h", "max_map_keys times 64 buckets is more than the kernel's 131072 rows"),
    )


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        (
            [add("sum", ir.arg(0), ir.arg(1), name="@s"), count(ir.builtin("pid"))],
            {
                "@": "a key of pid, which is no field of the event",
                "@s": "as @ of its clause is (a key of pid, which is no field of the event)",
            },
        ),
        (
            [add("sum", ir.arg(1), ir.arg(0), name="@s"), count(ir.arg(1))],
            dict.fromkeys(("@", "@s"), "the maps of its clause have different keys"),
        ),
    ],
)
def test_what_is_so_of_one_map_of_a_clause_is_not_said_of_the_others(
    body: list[typed.Stmt], reasons: dict[str, str]
) -> None:
    maps = [ir.map_of("@", "count", UINT64, UINT64), ir.map_of("@s", "sum", UINT64, UINT64)]
    assert dict(event(probe(body), maps=maps).reasons) == reasons


def test_a_map_may_be_fed_from_the_kernel_and_from_user_space() -> None:
    made = program(probe([count(ir.arg(0))]), probe([count(ir.builtin("pid"))], site(0x2000)))
    assert [bool(one.hist) for one in made.events] == [True, False]


def test_without_hist_triggers_the_program_is_the_one_that_it_would_have_been() -> None:
    clauses = (probe([count(ir.arg(0))]), probe([add("max", ir.arg(0), name="@m")], site(0x2000)))
    maps = [ir.map_of("@", "count", UINT64), ir.map_of("@m", "max")]
    made = program(*clauses, maps=maps)
    assert len(made.events) == 2
    (only,) = made.sampled("none here").events
    assert (len(only.branches), only.hist) == (2, ())
    assert only.reasons == (("@", "none here"), ("@m", "the kernel has no max() like this one"))


def test_text_shows_the_triggers_and_their_undo() -> None:
    assert program(probe([count(ir.arg(0))])).text().splitlines()[3:] == [
        "# read by perf_event_open",
        "GROUP/e0: sampled",
        "    clause 0 (probe)",
        "",
        "# instead of samples, where the kernel has hist triggers and all processes are traced",
        "events/GROUP/e0/trigger: hist:keys=f0:vals=hitcount:sort=hitcount:size=16384",
        "",
        "# undo",
        "events/GROUP/e0/trigger: !hist:keys=f0:vals=hitcount:sort=hitcount:size=16384",
        "-:GROUP/e0",
    ]
