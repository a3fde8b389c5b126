"""Where a program runs: every kind of probe, wildcards, attach points, predicates, BEGIN, END, interval, exit."""

from __future__ import annotations

from tests.contract.case import Case, by_hand
from tests.contract.depot import LABELS, ROUNDS, hits, rounds, signed
from tests.contract.expect import NOTHING, keyed, printf, scalar, together

R = rounds()

WILDCARD_COUNTS = {
    f"usdt:T:{where}": sum(hit.where == where for hit in hits())
    for where in sorted({hit.where for hit in hits()})
    if where.startswith("depot:")
}

CASES = [
    Case(
        "usdt",
        "usdt:T:depot:parcel { @ = count(); }",
        by_hand("@: 40\n", '{"type": "map", "data": {"@": 40}}'),
    ),
    Case("usdt_without_semaphore", "usdt:T:depot:plain { @ = count(); }", scalar("@", ROUNDS)),
    Case("usdt_without_provider", "usdt:T:parcel { @ = count(); }", scalar("@", ROUNDS)),
    Case(
        "usdt_of_many_sites",
        "usdt:T:depot:move { @[(int64)arg0, (int64)arg1] = count(); }",
        keyed("@", {(r.id, r.zone): 1 for r in R} | {(-1, 7): 4} | {(80, -5): 1}),
    ),
    Case("uprobe", "uprobe:T:price { @ = count(); }", scalar("@", ROUNDS)),
    Case("uprobe_at_an_offset", "uprobe:T:landmark+1 { @ = count(); }", scalar("@", 1)),
    Case("uprobe_at_an_address", "uprobe:T:{price} { @ = count(); }", scalar("@", ROUNDS)),
    Case(
        "uretprobe",
        "uretprobe:T:price /retval > 800/ { @[retval] = count(); }",
        keyed("@", {r.weight: sum(other.weight == r.weight for other in R) for r in R if r.weight > 800}),
    ),
    Case(
        "uretprobe_of_a_recursion",
        "uretprobe:T:fact { @[retval] = count(); }",
        keyed("@", {1: 1, 2: 1, 6: 1, 24: 1, 120: 1}),
    ),
    Case(
        "entry_and_return_in_turn",
        'uprobe:T:fact { printf("in %d\\n", arg0); } uretprobe:T:fact { printf("out %d\\n", retval); }',
        together(printf(f"in {n}\n") for n in (5, 4, 3, 2, 1))
        + together(printf(f"out {n}\n") for n in (1, 2, 6, 24, 120)),
        probes=2,
    ),
    Case(
        "wildcard_of_usdt_names",
        "usdt:T:depot:* { @[probe] = count(); }",
        keyed("@", WILDCARD_COUNTS),
        probes=len(WILDCARD_COUNTS),
    ),
    Case("wildcard_of_providers", "usdt:T:d*t:plain { @[probe] = count(); }", keyed("@", {"usdt:T:depot:plain": 40})),
    Case(
        "wildcard_of_functions",
        "uprobe:T:*_of { @[func] = count(); }",
        keyed("@", {"round_of": 40, "sign_of": 40}),
        probes=2,
    ),
    Case(
        "several_attach_points",
        "usdt:T:depot:parcel, uprobe:T:sign_of, uretprobe:T:six { @[probe] = count(); }",
        keyed("@", {"usdt:T:depot:parcel": 40, "uprobe:T:sign_of": 40, "uretprobe:T:six": 1}),
        probes=3,
    ),
    Case(
        "clauses_of_one_probe_run_in_order",
        'usdt:T:depot:plain /arg0 <= 2/ { printf("first %d\\n", arg0); }'
        ' usdt:T:depot:plain /arg0 <= 2/ { printf("second %d\\n", arg0); }',
        together(printf(f"{which} {n}\n") for n in (1, 2) for which in ("first", "second")),
        probes=2,
    ),
    Case(
        "clauses_of_one_probe_share_maps_in_order",
        "usdt:T:depot:plain { @last = arg0; } usdt:T:depot:plain /@last == arg0/ { @same = count(); }",
        scalar("@last", 40) + scalar("@same", 40),
        probes=2,
    ),
    Case(
        "begin_and_end",
        'BEGIN { printf("begin\\n"); } usdt:T:depot:plain /arg0 == 1/ { printf("hit\\n"); } END { printf("end\\n"); }',
        printf("begin\n") + printf("hit\n") + printf("end\n"),
        probes=3,
    ),
    Case(
        "begin_and_end_in_lower_case",
        'begin { printf("begin\\n"); exit(); } end { printf("end\\n"); }',
        printf("begin\n") + printf("end\n"),
        probes=2,
        target=None,
    ),
    Case(
        "what_begin_sets_is_there_at_the_first_hit",
        "BEGIN { @limit = 10; } usdt:T:depot:parcel /arg0 <= @limit/ { @n = count(); }",
        scalar("@limit", 10) + scalar("@n", 10),
        probes=2,
    ),
    Case(
        "interval_ms",
        "interval:ms:10 { @n++; if (@n == 3) { exit(); } }",
        scalar("@n", 3),
        target=None,
    ),
    Case(
        "interval_us",
        'interval:us:2000 { @n += 2; if (@n == 10) { exit(); } } END { printf("%d\\n", @n); clear(@n); }',
        printf("10\n"),
        probes=2,
        target=None,
    ),
    Case("interval_hz", "interval:hz:200 { @ = count(); if (@ == 4) { exit(); } }", scalar("@", 4), target=None),
    Case("interval_s", 'interval:s:1 { printf("tick\\n"); exit(); }', printf("tick\n"), target=None),
    Case(
        "predicate_on_integers",
        "usdt:T:depot:parcel /arg0 > 10 && arg2 == 3/ { @[arg0] = sum(arg3); }",
        keyed("@", {r.id: r.weight for r in R if r.id > 10 and r.zone == 3}),
    ),
    Case(
        "predicate_on_a_negative",
        "usdt:T:depot:parcel /(int32)arg4 < -2/ { @[(int32)arg4] = count(); }",
        keyed("@", {d: sum(r.delta == d for r in R) for d in (-4, -3)}),
    ),
    Case(
        "predicate_on_a_string",
        'usdt:T:depot:parcel /str(arg1) == "glue"/ { @ = count(); }',
        scalar("@", sum(r.item == "glue" for r in R)),
    ),
    Case(
        "predicate_on_a_map",
        "usdt:T:depot:parcel /@seen[arg2] == 0/ { @seen[arg2] = arg0; @first = count(); }",
        scalar("@first", 10) + keyed("@seen", {r.zone: r.id for r in reversed(R)}),
    ),
    Case("predicate_never_true", "usdt:T:depot:parcel /arg0 > 1000000/ { @never = count(); }", NOTHING),
    Case(
        "exit_stops_the_counts",
        "usdt:T:depot:parcel { @ = count(); @w = sum(arg3); if (arg0 == 17) { exit(); } }",
        scalar("@", 17) + scalar("@w", sum(r.weight for r in R[:17])),
    ),
    Case(
        "exit_ends_its_clause",
        "usdt:T:depot:parcel { @a = count(); if (arg0 == 5) { exit(); } @b = count(); }",
        scalar("@a", 5) + scalar("@b", 4),
    ),
    Case(
        "exit_stops_the_other_clauses",
        "usdt:T:depot:parcel /arg0 == 5/ { exit(); } usdt:T:depot:plain { @ = count(); }",
        scalar("@", 4),
        probes=2,
    ),
    Case(
        "exit_lets_end_run",
        'usdt:T:depot:parcel /arg0 == 3/ { printf("bye\\n"); exit(); } END { printf("end\\n"); }',
        printf("bye\n") + printf("end\n"),
        probes=2,
    ),
    Case(
        "exit_with_a_code",
        "usdt:T:depot:parcel { @ = count(); if (arg0 == 2) { exit(7); } }",
        scalar("@", 2),
        status=7,
    ),
    Case(
        "labels_in_turn",
        'usdt:T:depot:label { printf("%d ", arg0); } END { printf("\\n"); }',
        together(printf(f"{kind} ") for kind in range(len(LABELS))) + printf("\n"),
        probes=2,
    ),
    Case(
        "comments_and_newlines",
        "// counts\nusdt:T:depot:plain /* here */\n{\n  @ = count(); // every hit\n}\n",
        scalar("@", ROUNDS),
    ),
    Case(
        "functions_and_their_arguments",
        "uprobe:T:price /arg0 > 35/ { @[arg0, arg1] = count(); } uprobe:T:sign_of { @d[(int32)arg0] = count(); }",
        keyed("@", {(r.id, r.zone): 1 for r in R if r.id > 35})
        + keyed("@d", {d: sum(r.delta == d for r in R) for d in range(-4, 6)}),
        probes=2,
    ),
    Case(
        "six_arguments",
        'uprobe:T:six { printf("%d %d %d %d %ld %u\\n", arg0, (int32)arg1, (int16)arg2, (int8)arg3, arg4,'
        " (uint32)arg5); }"
        " uretprobe:T:six { @ = retval; }",
        printf("1000000007 -2 -3 -4 -1 4000000000\n") + scalar("@", 1000000007 - 2 - 3 - 4 - 1 + 4000000000),
        probes=2,
    ),
    Case(
        "twelve_arguments",
        'usdt:T:depot:wide { printf("%d %d %d %d\\n", arg0, arg9, arg10, arg11); }',
        printf("1 10 11 12\n"),
    ),
    Case(
        "constants_as_arguments",
        'usdt:T:depot:fixed { printf("%d %d %lx %d\\n", arg0, arg1, arg2, arg3); }',
        printf("7 -7 7ffffffffffffffe 200\n"),
    ),
    Case(
        "globals_as_arguments",
        'usdt:T:depot:gauge { printf("%d %d\\n", arg0, arg1); }',
        printf("80 -5\n"),
    ),
    Case(
        "indexed_memory_as_argument",
        "usdt:T:depot:cell { @[arg0] = sum(arg1); }",
        keyed("@", {i: sum(r.cell for r in R if r.id % 16 == i) for i in range(16)}),
        refused={"ftrace": "indexed"},
    ),
    Case(
        "beside_indexed_memory",
        "usdt:T:depot:cell { @[arg0] = count(); }",
        keyed("@", {i: sum(r.id % 16 == i for r in R) for i in range(16)}),
    ),
    Case(
        "retval_as_a_signed_integer",
        "uretprobe:T:sign_of { @[(int32)retval] = count(); }",
        keyed("@", {s: sum(r.sign == s for r in R) for s in (-1, 0, 1)}),
    ),
    Case(
        "widths",
        "usdt:T:depot:widths /@n < 4/ { @n++;"
        ' printf("%d %d %d %d %ld %d %lu %ld\\n", arg0, arg1, arg2, arg3, arg4, arg5, arg6, arg7); } END {'
        " clear(@n); }",
        together(printf(" ".join(map(str, r.widths)) + "\n") for r in R[:4]),
        probes=2,
    ),
    Case(
        "widths_cast",
        "usdt:T:depot:widths { @a = sum((uint8)arg1); @b = sum((int8)arg0); @c = sum((uint16)arg3);"
        " @d = sum((int16)arg2); @e = sum((uint32)arg5); @f = sum((int32)arg4); @g = sum((int64)arg6); }",
        scalar("@a", sum(r.widths[0] for r in R))
        + scalar("@b", sum(r.widths[1] for r in R))
        + scalar("@c", sum(r.widths[2] for r in R))
        + scalar("@d", sum(r.widths[3] for r in R))
        + scalar("@e", sum(r.widths[4] for r in R))
        + scalar("@f", sum(r.widths[5] for r in R))
        + scalar("@g", signed(sum(r.widths[7] for r in R))),
    ),
    Case(
        "calls_of_a_recursion",
        "call:T:fact { @[arg0, retval, depth] = count(); @own[self_time <= duration] = count(); }",
        keyed("@", {(5, 120, 0): 1, (4, 24, 1): 1, (3, 6, 2): 1, (2, 2, 3): 1, (1, 1, 4): 1})
        + keyed("@own", {True: 5}),
        replayed=False,
    ),
    Case(
        "a_function_in_two_clauses_of_calls",
        "call:T:fact { @ = sum(arg0); if (self_time > duration) { @wrong = count(); } }"
        " call:T:fact, call:T:price { @n[func] = count(); if (self_time > duration) { @wrong = count(); } }",
        scalar("@", 15) + keyed("@n", {"fact": 5, "price": ROUNDS}),
        probes=3,
        replayed=False,
    ),
    Case(
        "a_span_by_thread",
        "span:usdt:T:depot:parcel..usdt:T:depot:plain /arg0 <= 3/"
        " { @[str(arg1), arg0 == after(arg0)] = max(after(arg0)); }",
        keyed("@", {(r.item, True): r.id for r in R if r.id <= 3}),
        probes=2,
    ),
    Case(
        "a_span_by_a_key",
        "span:uprobe:T:price..usdt:T:depot:plain by arg0 { @ = sum(arg1); @n[depth] = count(); }",
        scalar("@", sum(r.zone for r in R)) + keyed("@n", {0: ROUNDS}),
        probes=2,
    ),
]
