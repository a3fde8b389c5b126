"""What random programs (`tests.contract.fuzz`) found, made small: each once gave another answer on one backend."""

from __future__ import annotations

from collections import Counter

from tests.contract.case import Case
from tests.contract.depot import ITEMS, rounds
from tests.contract.expect import average, keyed, scalar

R = rounds()
A = [r for r in R if r.item.isascii()]


def own_average() -> list[int]:
    """avg() over id plus the average so far."""
    values: list[int] = []
    for r in R:
        values.append(r.id + (sum(values) // len(values) if values else 0))
    return values


def _seen(until: int, zone: int) -> bool:
    return any(r.zone == zone for r in R[:until])


CASES = [
    Case(
        "numbers_and_buffers_as_variables",
        'usdt:T:depot:parcel { $a = arg0; $s = str(arg1, 32); $b = arg2; $t = (arg0, "x");'
        " @[$s, $t.1] = sum($a + $b); }",
        keyed("@", {(item, "x"): sum(r.id + r.zone for r in R if r.item == item) for item in ITEMS}),
    ),
    Case(
        "a_choice_between_two_arguments",
        "usdt:T:depot:widths { @ = sum(arg0 > 100 ? arg4 : arg2); @u = max((arg1 > 5 ? arg5 : arg3) & 255); }",
        scalar("@", sum(r.widths[4] if r.widths[0] > 100 else r.widths[2] for r in R))
        + scalar(
            "@u",
            max((r.widths[5] if r.widths[1] % 2**64 > 5 else r.widths[3]) & 255 for r in R),
        ),
    ),
    Case(
        "a_value_is_computed_before_its_key",
        "usdt:T:depot:parcel /arg0 < 4/ { $n = 0; @[$n++] = $n; @s[++$n] = sum($n--); @a[$n] += ++$n; }",
        keyed("@", {0: 0}) + keyed("@a", {2: 6}) + keyed("@s", {1: 3}),
    ),
    Case(
        "an_average_of_its_own_average",
        "usdt:T:depot:parcel { @ = avg(@ + arg0); }",
        average("@", own_average()),
    ),
    Case(
        "an_aggregation_of_itself_alone",
        "usdt:T:depot:parcel { @ = max(@ + 1); }",
        scalar("@", 40),
    ),
    Case(
        "a_key_is_there_or_else",
        "usdt:T:depot:parcel { @k[arg2] = count(); $n = (int64)arg0 << 32; if (has_key(@k, 3) || $n > (5 << 32)) { @a ="
        " count(); } if (has_key(@k, arg0) == has_key(@k, arg3)) { @b = count(); } } END { clear(@k); }",
        scalar("@a", 35) + scalar("@b", sum(_seen(r.id, r.id) == _seen(r.id, r.weight) for r in R)),
        probes=2,
    ),
    Case(
        "the_length_of_a_histogram_is_its_keys",
        "usdt:T:depot:parcel { @h[arg2] = hist(arg3); @n[len(@h)] = count(); if (arg0 == 10) { delete(@h, 3); } }"
        " END { clear(@h); }",
        keyed("@n", {**{n: 1 for n in range(1, 9)}, 9: 1 + 8, 10: 1 + 22}),
        probes=2,
    ),
    Case(
        "a_short_string_read_into_a_wide_place",
        'usdt:T:depot:parcel { if ((arg2, arg2 == 3 ? "glue" : str(arg1)) == (arg2, str(arg1, 9))) { @same = count(); }'
        " $short = str(arg1, 9); @[$short] = count(); }",
        keyed("@", {item.encode()[:8].decode(): 8 for item in ITEMS})
        + scalar("@same", sum(r.item == "glue" or (r.zone != 3 and len(r.item.encode()) < 9) for r in R)),
    ),
    Case(
        "two_strings_said_many_times",
        "usdt:T:depot:parcel /arg0 % 5 != 3/ {"
        " @a[str(arg1), arg0 & 1 ? str(arg1) : str(arg1 + 1), str(arg1 + 1)] = count();"
        ' @b[strcontains(str(arg1), "l") ? str(arg1) : "", arg0 & 1 ? str(arg1) : "no"] = count();'
        " $t = (1, str(arg1)); $t = (2, str(arg1 + 1)); $u = $t; @c[$u.1, $t.1, str(arg1)] = count();"
        " @d[str(arg1), str(arg1 + 1)] = (str(arg1), 1);"
        " @e[@d[str(arg1), str(arg1 + 1)].0, str(arg1) == str(arg1 + 1), strlen(str(arg1))] = count(); }",
        keyed("@a", Counter((r.item, r.item if r.id & 1 else r.item[1:], r.item[1:]) for r in A))
        + keyed("@b", Counter((r.item if "l" in r.item else "", r.item if r.id & 1 else "no") for r in A))
        + keyed("@c", Counter((r.item[1:], r.item[1:], r.item) for r in A))
        + keyed("@d", {(r.item, r.item[1:]): (r.item, 1) for r in A})
        + keyed("@e", Counter((r.item, False, len(r.item)) for r in A)),
    ),
    Case(
        "a_comparison_of_no_bytes_reads_its_string",
        'usdt:T:depot:stray { @before = count(); if (!strncmp(str(arg1), "x", 0)) { @after = count(); } }'
        ' usdt:T:depot:parcel { if (!strncmp(str(arg1), "x", 0)) { @read = count(); } }',
        scalar("@before", 1) + scalar("@read", 40),
        probes=2,
        unreadable=1,
    ),
    Case(
        "extremes_deleted_at_the_end",
        "usdt:T:depot:parcel { @a[arg2 & 3] = max(arg0); @b = min(arg0); @c = max(arg3); @d[arg0] = max(arg3); }"
        " END { delete(@a, 2); delete(@b); delete(@c); delete(@d, 5); @c = max((uint64)7); clear(@d); }",
        keyed("@a", {zone: max(r.id for r in R if r.zone & 3 == zone) for zone in (0, 1, 3)}) + scalar("@c", 7),
        probes=2,
    ),
    Case(
        "a_long_string_holds_another",
        "usdt:T:depot:parcel { @[strcontains(str(arg1), str(arg1 + 1, 4)), strcontains(str(arg1, 64), comm),"
        ' strcontains(str(arg1), "wire"), strcontains(str(arg1), "")] = count(); }',
        keyed("@", {(True, False, wire, True): 8 if wire else 32 for wire in (True, False)}),
    ),
]
