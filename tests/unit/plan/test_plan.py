"""Lowering, needs and checks, on typed programs whose sites are made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.lang.programs import analysed, sites_of
from tracer.errors import Source
from tracer.kinds.site import ArgSpec, Const, Global, Mem, Operand, Reg, Unreadable, places_among
from tracer.lang import features
from tracer.lang.analyse import analyse
from tracer.lang.features import KEYS_OF_CLEARED, SERIES_KEYS, SHARED_AGGREGATION, Feature
from tracer.lang.syntax.parser import parse
from tracer.plan.check import check, check_arguments
from tracer.plan.lower import lower
from tracer.plan.model import Plan
from tracer.plan.states import Capabilities, Unsupported

ORDER = "usdt:/bin/app:shop:order"


def spec(operand: Operand, text: str = "") -> ArgSpec:
    return ArgSpec(text, 8, False, operand)


def plan_with(text: str, *first_arguments: ArgSpec) -> Plan:
    """The plan of a one-clause program whose probe has one site for each of the given arg0."""
    program = parse(Source(text))
    (site,) = places_among(sites_of(program)[0])
    sites = tuple(
        replace(site, address=site.address + step, offset=site.offset + step, args=(argument, *site.args[1:]))
        for step, argument in zip(range(0, 1 << 20, 16), first_arguments, strict=False)
    )
    return lower(analyse(program, {0: sites}))


def layouts(plan: Plan) -> list[tuple[list[int], int]]:
    """For each variant the arguments it reads and how many sites it has."""
    return [(list(variant.args), len(variant.sites)) for probe in plan.probes for variant in probe.variants]


def needs_of(text: str) -> list[tuple[Feature, str]]:
    return [(need.feature, need.construct) for need in lower(analysed(text)).needs]


def test_sites_with_equal_arguments_share_a_variant() -> None:
    plan = plan_with(f"{ORDER} {{ @[arg0] = count(); }}", spec(Reg("ax")), spec(Mem("sp", 8)), spec(Reg("ax")))
    assert layouts(plan) == [([0], 2), ([0], 1)]
    assert plan.probes[0].variants[0].places[1].offset == 0x1020


def test_arguments_nobody_reads_do_not_split_a_variant() -> None:
    plan = plan_with(f"{ORDER} {{ @[arg1] = count(); }}", spec(Reg("ax")), spec(Mem("sp", 8)))
    assert layouts(plan) == [([1], 2)]


def test_one_place_spelled_in_two_ways_is_one_layout() -> None:
    plan = plan_with(f"{ORDER} {{ @ = sum(arg0); }}", spec(Mem("sp", 0), "8@(%rsp)"), spec(Mem("sp", 0), "8@0(%rsp)"))
    assert layouts(plan) == [([0], 2)]


def test_names_of_probes_split_variants_only_where_they_are_used() -> None:
    two = "usdt:/bin/app:shop:order,usdt:/bin/app:shop:refund"
    used = lower(analysed(f"{two} {{ @[probe] = count(); }}"))
    assert [variant.told["probe"] for variant in used.probes[0].variants] == [
        b"usdt:/bin/app:shop:order",
        b"usdt:/bin/app:shop:refund",
    ]
    unused = lower(analysed(f"{two} {{ @ = count(); }}"))
    assert [(variant.told, len(variant.sites)) for variant in unused.probes[0].variants] == [({}, 2)]


def test_begin_end_and_interval_are_no_probes() -> None:
    plan = lower(analysed(f"BEGIN {{ @ = 1; }} {ORDER} {{ @ = 2; }} interval:s:1 {{ @ = 3; }} END {{ @ = 4; }}"))
    assert [clause.kind.name for clause in plan.user] == ["begin", "interval", "end"]
    assert len(plan.probes) == 1 and len(plan.sites) == 1


def test_variants_are_numbered_through_the_whole_plan() -> None:
    plan = lower(analysed(f"{ORDER} {{ @ = arg0; }} uprobe:/bin/app:f {{ @ = arg0; }}"))
    assert [variant.id for probe in plan.probes for variant in probe.variants] == [0, 1]


def test_each_construct_asks_for_its_feature() -> None:
    assert needs_of(f"{ORDER} {{ @[str(arg0)] = count(); }}") == [
        (features.UPROBE, ORDER),
        (features.STRING, "str()"),
    ]
    assert needs_of(f"{ORDER} {{ @[str(arg0 + arg1)] = count(); }}")[1] == (features.STRING_COMPUTED, "str()")
    assert needs_of(f"{ORDER} {{ @[uid] = count(); }}")[1] == (features.UID, "uid")
    assert needs_of("uretprobe:/bin/app:f { @ = retval; }") == [(features.URETPROBE, "uretprobe:/bin/app:f")]
    assert needs_of(f"{ORDER} {{ @[ustack(3)] = count(); @s[usym(arg0)] = count(); }}")[1:] == [
        (features.USER_STACK, "ustack"),
        (features.SYMBOL, "usym()"),
    ]
    assert needs_of(f"{ORDER} {{ @c = count(); if (@c > 3) {{ exit(); }} }}")[1] == (
        features.AGGREGATION_READ,
        "@c as a value",
    )


@pytest.mark.parametrize(
    "body",
    [
        "$b = ustack(3); if (has_key(@q, $b)) { @d = 1; } @q[$b] = 1;",
        "if (has_key(@q, ustack(3))) { @d = 1; } @q[ustack(3)] = 1;",
        "$x = (ustack(3), 1); $y = $x; if ($y.1 == 1) { @d[$y.0] = 1; @e = @d[$y.0]; }",
    ],
)
def test_the_stack_that_is_computed_with_is_named_and_not_the_first(body: str) -> None:
    text = f"{ORDER} {{ @first = ustack(2); {body} }}"
    asked = [need for need in lower(analysed(text)).needs if need.feature is features.STACK_COMPUTED]
    assert {text[need.span.start : need.span.end] for need in asked} == {"ustack(3)"}


def test_what_runs_in_user_space_needs_nothing() -> None:
    assert needs_of("BEGIN { @[uid] = count(); $i = 3; while ($i) { $i--; } }") == []


def test_indexed_memory_is_a_need_of_its_own() -> None:
    plan = plan_with(f"{ORDER} {{ @ = arg0; }}", spec(Mem("bp", -8, "ax", 8), "8@-8(%rbp,%rax,8)"))
    assert [(need.feature, need.construct) for need in plan.needs][1:] == [
        (features.MEMORY_INDEXED, "arg0 at 8@-8(%rbp,%rax,8)")
    ]
    plan = plan_with(f"{ORDER} {{ @ = arg0; }}", spec(Global(0x4000, 0x3000, 0x10, "cx", 8), "8@table(,%rcx,8)"))
    assert plan.needs[1].feature is features.GLOBAL_INDEXED


def test_what_a_backend_lacks_stands_under_the_users_text() -> None:
    text = f"{ORDER} {{ @[uid] = count(); }}"
    capabilities = Capabilities(
        "ftrace", None, {features.UID: Unsupported("its events carry no uid", "use --backend bcc")}, {}
    )
    (found,) = check(lower(analysed(text)), capabilities)
    assert text[found.span.start : found.span.end] == "uid"
    assert found.message == "uid is not available with ftrace: its events carry no uid"
    assert found.hint == "use --backend bcc"


def test_a_backend_that_lacks_nothing_needed_can_run_it() -> None:
    capabilities = Capabilities("ftrace", None, {features.UID: Unsupported("no uid")}, {})
    assert check(lower(analysed(f"{ORDER} {{ @[pid] = count(); }}")), capabilities) == []


def test_an_argument_no_site_can_read_is_an_error() -> None:
    bad = spec(Unreadable("it is thread-local"), "-4@%fs:x@tpoff")
    (found,) = check_arguments(plan_with(f"{ORDER} {{ @ = arg0; }}", bad))
    assert (found.severity, found.message) == (
        "error",
        f"arg0 cannot be read at {ORDER}: it is thread-local (-4@%fs:x@tpoff)",
    )
    assert found.hint == "leave it out; the other arguments can be read"


def test_an_argument_some_sites_cannot_read_is_a_warning() -> None:
    bad = spec(Unreadable("it is thread-local"), "-4@%fs:x@tpoff")
    (found,) = check_arguments(plan_with(f"{ORDER} {{ @ = arg0; }}", spec(Reg("ax")), bad, spec(Const(1))))
    assert (found.severity, found.message) == (
        "warning",
        f"arg0 cannot be read at {ORDER}: it is thread-local (-4@%fs:x@tpoff); this is so at 1 of 3 sites",
    )


def test_an_argument_a_site_does_not_have_says_how_many_it_has() -> None:
    program = parse(Source(f"{ORDER} {{ @ = arg1; }}"))
    (site,) = places_among(sites_of(program)[0])
    short = replace(site, args=site.args[:1])
    (found,) = check_arguments(lower(analyse(program, {0: (site, short)})))
    assert found.message == f"arg1 cannot be read at {ORDER}: the site has 1 argument; this is so at 1 of 2 sites"


@pytest.mark.parametrize(
    "body",
    [
        "@[$kv.0] = 3; @[$kv.0]++; delete(@, $kv.0);",
        "$k = $kv.0; if ($k > 3) { delete(@, $k); }",
        "@other[$kv.0 + 1] = 1; $n = @[$kv.0 + 1]; clear(@);",
    ],
)
def test_a_walk_may_change_the_key_it_is_at(body: str) -> None:
    asked = needs_of(f"{ORDER} {{ @[arg0] = 1; for ($kv : @) {{ {body} }} }}")
    assert features.MAP_WALK in dict(asked) and features.MAP_WALK_CHANGED not in dict(asked)


@pytest.mark.parametrize(
    "body",
    [
        "@[$kv.0 + 1] = 3;", "@[$kv.1]++;", "delete(@, arg0);", "for ($a : @) { delete(@, $a.0); }",
        "for ($i : 0..3) { if ($i == 1) { @[5] = 1; } }",
    ],
)  # fmt: skip
def test_a_walk_that_writes_other_keys_asks_for_more(body: str) -> None:
    asked = needs_of(f"{ORDER} {{ @[arg0] = 1; for ($kv : @) {{ {body} }} }}")
    assert dict(asked)[features.MAP_WALK_CHANGED] == "for over @"


@pytest.mark.parametrize(("room", "large"), [("", True), ("let @=hash(1025); ", True), ("let @=hash(1024); ", False)])
def test_a_walk_over_room_for_many_keys_asks_for_more(room: str, large: bool) -> None:
    asked = needs_of(f"{room}{ORDER} {{ @[arg0] = 1; for ($kv : @) {{ }} }}")
    assert (features.MAP_WALK_LARGE in dict(asked)) is large


def test_parts_of_the_key_are_the_key_in_their_order_alone() -> None:
    text = f"{ORDER} {{ @[arg0, arg1] = 1; for ($kv : @) {{ @[%s] = 2; }} }}"
    asked = [dict(needs_of(text % key)) for key in ("$kv.0.0, $kv.0.1", "$kv.0.1, $kv.0.0")]
    assert [features.MAP_WALK_CHANGED in each for each in asked] == [False, True]


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("{ @[arg0] = count(); clear(@); if (len(@) > 3) { exit(); } }", [(KEYS_OF_CLEARED, "len(@)")]),
        ("{ @[arg0] = count(); zero(@); if (has_key(@, 3)) { exit(); } }", [(KEYS_OF_CLEARED, "has_key(@)")]),
        ("{ @[arg0] = count(); zero(@); delete(@, arg0); }", [(KEYS_OF_CLEARED, "delete(@)")]),
        ("{ @[arg0] = arg1; clear(@); @n = @[arg0]; delete(@, arg0); @m = has_key(@, 1); }", []),
        ("{ @ = count(); @n = (uint64)@; } BEGIN { @ = count(); }", [(SHARED_AGGREGATION, "@ as a value")]),
        ("{ @[1] = sum(2); @n = has_key(@, 1); } interval:s:1 { zero(@); }", [(SHARED_AGGREGATION, "has_key(@)")]),
        ("{ @[1] = 2; @n = has_key(@, 1); } interval:s:1 { zero(@); @[2]++; }", []),
        ("{ @[1] = tseries(2, 1s, 3); delete(@, 1); clear(@); }", [(SERIES_KEYS, "delete(@)")]),
        ("{ @[1] = sum(2); @n = len(@); } END { @[3] = sum(4); zero(@); }", []),
        ("{ @[1] = 2; for ($kv : @) { @n++; } zero(@); }", [(KEYS_OF_CLEARED, "for over @")]),
        ("{ @[1] = 2; for ($kv : @) { @n++; } clear(@); }", []),
        ("{ @[1] = sum(2); for ($kv : @) { @n++; } } BEGIN { @[1] = sum(3); }", [(SHARED_AGGREGATION, "for over @")]),
    ],
)
def test_maps_that_other_clauses_change_as_a_whole(text: str, needs: list[tuple[Feature, str]]) -> None:
    asked = needs_of(f"{ORDER} {text}")
    assert [need for need in asked if need[0] in (KEYS_OF_CLEARED, SERIES_KEYS, SHARED_AGGREGATION)] == needs
