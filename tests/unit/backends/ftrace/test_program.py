from __future__ import annotations

from dataclasses import replace

from tests import typed_ir as ir
from tests.unit.backends.ftrace.plans import FUNCTION, compiled, count, definitions, load, plan, probe, site, spec
from tracer.backends.ftrace.compile import compile_plan
from tracer.backends.ftrace.filters import Filter
from tracer.errors import Source, Span
from tracer.kernel.uprobe_events.events import MOST_PLACES
from tracer.kinds.site import Mem, Reg
from tracer.lang import typed
from tracer.lang.types import UINT8, UINT64, StringType


def test_text_shows_the_writes_how_they_are_read_and_the_undo() -> None:
    program = compiled(
        probe([count(ir.arg(1))], site(0x1000, semaphore=0x3010), predicate=ir.op(">", ir.arg(1), ir.num(3, UINT64))),
        probe([count(name="@n")], FUNCTION),
        maps={"@": UINT64, "@n": None},
    )
    assert program.text() == (
        "# uprobe_events, one line each; GROUP is the session's own (tracer_PID_RANDOM)\n"
        "p:GROUP/e0 /bin/app:0x1000(0x3010) f0=%si:s32\n"
        "p:GROUP/e1 /bin/app:0x2000\n"
        "\n"
        "# read by perf_event_open\n"
        "GROUP/e0: sampled\n"
        "    clause 0 (probe)\n"
        "GROUP/e1: counted, no samples: @n\n"
        "\n"
        "# undo\n"
        "-:GROUP/e1\n"
        "-:GROUP/e0\n"
    )


def test_a_return_probe_is_defined_as_one() -> None:
    program = compiled(probe([count(typed.Retval(UINT64, ir.N))], replace(FUNCTION, kind="uretprobe")))
    assert definitions(program) == ["r:g/e0 /bin/app:0x2000 f0=$retval:u64"]


def test_clauses_of_one_place_share_one_event_with_the_union_of_their_fetches() -> None:
    program = compiled(
        probe([count(ir.arg(0))]),
        probe([count(ir.arg(1), "@b")]),
        probe([count(ir.arg(0), "@c")]),
        maps={"@": UINT64, "@b": UINT64, "@c": UINT64},
    )
    assert definitions(program) == ["p:g/e0 /bin/app:0x1000 f0=%di:u64 f1=%si:s32"]
    assert [run.clause.id for run in program.events[0].branches[0]] == [0, 1, 2]


def test_places_that_differ_in_registers_alone_share_one_event() -> None:
    program = compiled(
        probe([count(ir.arg(0))], site(0x1000, args=[spec(Reg("di"))]), site(0x1100, args=[spec(Reg("r12"))]))
    )
    assert definitions(program) == ["p:g/e0 /bin/app:0x1000 f0=%di:u64", "p:g/e0 /bin/app:0x1100 f0=%r12:u64"]


def test_places_whose_arguments_have_other_sizes_have_events_of_their_own() -> None:
    program = compiled(
        probe([count(ir.arg(0))], site(0x1000, args=[spec(Reg("di"))]), site(0x1100, args=[spec(Reg("di"), 4, True)]))
    )
    assert definitions(program) == ["p:g/e0 /bin/app:0x1000 f0=%di:u64", "p:g/e1 /bin/app:0x1100 f0=%di:s32"]


def test_places_that_do_something_else_are_branches_of_one_event_where_the_types_agree() -> None:
    program = compiled(
        probe([count(ir.arg(0))]),
        probe([count(ir.arg(0), "@b")], site(0x2000, args=[spec(Reg("r9"))])),
        probe([count(ir.arg(0), "@b")], site(0x3000, args=[spec(Reg("r9"), 4)])),
        probe([count(ir.arg(0), "@b")], site(0x4000, "uretprobe", args=[spec(Reg("r9"))])),
        maps={"@": UINT64, "@b": UINT64},
    )
    assert definitions(program) == [
        "p:g/e0 /bin/app:0x1000 f0=%di:u64 f1=\\0:u16",
        "p:g/e0 /bin/app:0x2000 f0=%r9:u64 f1=\\1:u16",
        "p:g/e1 /bin/app:0x3000 f0=%r9:u32",
        "r:g/e2 /bin/app:0x4000 f0=%r9:u64",
    ]
    assert [[run.clause.id for run in runs] for runs in program.events[0].branches] == [[0], [1]]


def test_a_kernel_with_one_probe_for_an_event_gets_an_event_for_each_place() -> None:
    program = compiled(
        probe([count(ir.arg(0))]),
        probe([count(ir.arg(0), "@b")], site(0x2000), site(0x3000)),
        maps={"@": UINT64, "@b": UINT64},
    )
    parts = program.events[0].split()
    assert [part.definition(part.places[0], "g", "/bin/app") for part in parts] == [
        "p:g/e0_0 /bin/app:0x1000 f0=%di:u64",
        "p:g/e0_1 /bin/app:0x2000 f0=%di:u64",
        "p:g/e0_2 /bin/app:0x3000 f0=%di:u64",
    ]
    assert [[run.clause.id for runs in part.branches for run in runs] for part in parts] == [[0], [1], [1]]


def test_events_with_other_filters_are_kept_apart() -> None:
    program = compiled(
        *(
            probe([count(ir.arg(0))], site(offset), predicate=ir.op("<", ir.arg(0), ir.num(limit, UINT64)))
            for offset, limit in ((0x1000, 3), (0x2000, 4), (0x3000, 3))
        )
    )
    assert [(len(event.places), event.filter and event.filter.text) for event in program.events] == [
        (2, "f0 < 3"), (1, "f0 < 4"),
    ]  # fmt: skip


def test_a_place_named_twice_in_a_clause_runs_it_twice() -> None:
    program = compiled(probe([count()], site(), site()), maps={"@": None})
    assert definitions(program) == ["p:g/e0 /bin/app:0x1000"]
    assert program.events[0].counts == ("@", "@")


def test_a_plain_count_needs_no_samples() -> None:
    assert compiled(probe([count()]), maps={"@": None}).events[0].counts == ("@",)


def test_a_plain_count_with_a_predicate_the_kernel_tests_whole_needs_no_samples() -> None:
    event = compiled(
        probe([count()], predicate=ir.op("<", ir.arg(0), ir.num(9, UINT64))), maps={"@": None}
    ).events[0]
    assert (event.counts, event.filter and event.filter.text) == (("@",), "f0 < 9")


def test_a_plain_count_with_any_other_predicate_is_sampled() -> None:
    predicate = ir.op("<", ir.arg(0), ir.arg(1))
    event = compiled(probe([count()], predicate=predicate), maps={"@": None}).events[0]
    assert (event.counts, event.filter) == ((), None)


def test_a_count_is_sampled_where_another_clause_can_exit() -> None:
    program = compiled(probe([count()]), probe([typed.Exit(ir.N, ir.num(0, UINT8))], FUNCTION), maps={"@": None})
    assert {event.counts for event in program.events} == {()}


def test_a_count_is_sampled_where_another_probe_prints_its_map() -> None:
    program = compiled(probe([count()]), probe([typed.PrintMap(ir.N, "@", 0, 0)], FUNCTION), maps={"@": None})
    assert {event.counts for event in program.events} == {()}


def test_a_count_is_sampled_where_the_place_has_other_clauses() -> None:
    program = compiled(probe([count()]), probe([count(ir.arg(0), "@k")]), maps={"@": None, "@k": UINT64})
    assert [event.counts for event in program.events] == [()]


def test_a_filter_lets_through_what_any_clause_of_the_place_may_want() -> None:
    small, large = ir.op("<", ir.arg(0), ir.num(9, UINT64)), ir.op(">", ir.arg(0), ir.num(99, UINT64))
    other = ir.op("<", ir.arg(0), ir.arg(1))

    def filter_of(*predicates: typed.Expr | None) -> Filter | None:
        (event,) = compiled(*(probe([count(ir.arg(0))], predicate=one) for one in predicates)).events
        assert not event.counts
        return event.filter

    assert filter_of(small, None) is None
    assert filter_of(small, other) is None
    assert filter_of(small, large) == Filter("(f0 < 9) || (f0 > 99)", whole=False)
    assert filter_of(small, ir.op("&&", small, other), large) == Filter("(f0 < 9) || (f0 > 99)", whole=False)


def test_text_says_what_of_a_predicate_the_kernel_tests_and_what_is_left() -> None:
    text = "usdt:/bin/app:p:n / arg0 < arg1  && arg0 == 7 / { } usdt:/bin/app:p:n /arg1/ { }"

    def written(predicate: typed.Binary, words: str) -> typed.Binary:
        return replace(predicate, span=Span(text.index(words), text.index(words) + len(words)))

    of_both = written(ir.op("<", ir.arg(0), ir.arg(1)), "arg0 < arg1")
    predicate = ir.op("&&", of_both, written(ir.op("==", ir.arg(0), ir.num(7, UINT64)), "arg0 == 7"))
    predicate = written(predicate, "arg0 < arg1  && arg0 == 7")
    other = replace(ir.arg(1), span=Span(text.index("/arg1/") + 1, text.index("/arg1/") + 5))

    def lines(*clauses: typed.Clause) -> list[str]:
        made = plan(*clauses)
        made = replace(made, program=replace(made.program, source=Source(text)))
        return compile_plan(made, "%ax").text().splitlines()[4:-3]

    first, second = probe([count(ir.arg(0))], predicate=predicate), probe([count(ir.arg(0))], predicate=other)
    assert lines(first)[-2:] == [
        "GROUP/e0: sampled, kernel filter: f0 == 7", "    clause 0 (probe), in user space: arg0 < arg1",
    ]  # fmt: skip
    assert lines(first, second)[-3:] == [
        "GROUP/e0: sampled, kernel filter: (f0 == 7) || (f1 != 0)",
        "    clause 0 (probe), in user space: arg0 < arg1 && arg0 == 7",
        "    clause 1 (probe), in user space: arg1",
    ]


def test_numbers_in_memory_and_in_registers_do_not_share_a_filter() -> None:
    predicate = ir.op("<", ir.arg(0), ir.num(9, UINT64))
    program = compiled(
        probe(
            [count(ir.arg(0))],
            site(0x1000, args=[spec(Reg("di"))]),
            site(0x1100, args=[spec(Mem("bp", -8))]),
            predicate=predicate,
        )
    )
    assert [event.filter and event.filter.text for event in program.events] == ["f0 < 9", None]


def test_the_deepest_stack_and_the_cpu_are_asked_for() -> None:
    stack = typed.UStack(ir.builtin("pid").type, ir.N)
    del stack
    program = compiled(probe([count(ir.str_of(load(ir.arg(0))))]), maps={"@": StringType(1024)})
    assert (program.frames, program.wants_cpu) == (0, False)
    assert compiled(probe([count(ir.builtin("cpu"))])).wants_cpu


def test_clauses_of_one_place_that_only_count_have_an_event_for_each_filter() -> None:
    few = ir.op("<", ir.arg(0), ir.num(9, UINT64))
    program = compiled(probe([count()]), probe([count(name="@few")], predicate=few), maps={"@": None, "@few": None})
    assert [(event.counts, event.filter and event.filter.text) for event in program.events] == [
        (("@",), None), (("@few",), "f0 < 9"),
    ]  # fmt: skip
    assert {event.places[0].file.offset for event in program.events} == {0x1000}


def test_adding_one_to_a_number_is_counting() -> None:
    one = typed.MapAdd(ir.N, "@n", (), ir.num(1))
    program = compiled(probe([one, count()]), maps={"@": None, "@n": None})
    assert program.events[0].counts == ("@n", "@")


def test_adding_anything_else_is_not_counting() -> None:
    two = typed.MapAdd(ir.N, "@n", (), ir.num(2))
    assert compiled(probe([two]), maps={"@n": None}).events[0].counts == ()


def test_many_places_are_spread_over_some_events() -> None:
    sites = [site(0x1000 + number) for number in range(MOST_PLACES + 5)]
    counted = compiled(probe([count(name="@n")], *sites), maps={"@n": None})
    assert [len(event.places) for event in counted.events] == [MOST_PLACES, 5]
    assert [event.counts for event in counted.events] == [("@n",), ("@n",)]
    places = [place.file.offset for event in counted.events for place in event.places]
    assert places == [each.offset for each in sites]
