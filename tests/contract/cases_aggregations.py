"""Aggregations: count, sum, avg, min, max, stats, hist, lhist, quantiles and tseries, of signed and unsigned values,
with and without keys.
"""

from __future__ import annotations

from tests.contract.case import Case, by_hand
from tests.contract.depot import rounds, signed, u
from tests.contract.expect import (
    ONE_INTERVAL,
    average,
    hist,
    keyed,
    lhist,
    mean,
    quantiles,
    scalar,
    series,
    stats,
    together,
)
from tests.contract.grouping import by, counted, summed, weights_by_item

R = rounds()
_ONCE = f"{ONE_INTERVAL}, 2"

CASES = [
    Case(
        "count",
        "usdt:T:depot:parcel { @ = count(); @k[arg2] = count(); }",
        scalar("@", 40) + keyed("@k", counted("zone")),
    ),
    Case(
        "sum",
        "usdt:T:depot:parcel { @ = sum(arg3); @k[str(arg1)] = sum(arg3); @d[arg2] = sum((int32)arg4); }",
        scalar("@", sum(r.weight for r in R)) + keyed("@d", summed("zone", "delta")) + keyed("@k", summed("item")),
    ),
    Case("sum_wraps", "usdt:T:depot:widths { @ = sum(arg6); }", scalar("@", u(sum(r.widths[6] for r in R)))),
    Case(
        "avg",
        "usdt:T:depot:parcel { @ = avg(arg3); @d[arg2] = avg((int32)arg4 * 3); @k[str(arg1)] = avg(arg3); }",
        average("@", [r.weight for r in R])
        + average("@d", {zone: [r.delta * 3 for r in group] for zone, group in by("zone").items()})
        + average("@k", weights_by_item()),
    ),
    Case(
        "avg_of_negatives_truncates_towards_zero",
        "usdt:T:depot:parcel /arg0 <= 5/ { @ = avg((int32)arg4 - 5); }",
        average("@", [r.delta - 5 for r in R[:5]]),
    ),
    Case(
        "min_and_max",
        "usdt:T:depot:parcel { @hi = max(arg3); @lo = min(arg3); @low[arg2 & 1] = min((int32)arg4); @top[arg2 &"
        " 1] = max((int32)arg4); }",
        scalar("@hi", max(r.weight for r in R))
        + scalar("@lo", min(r.weight for r in R))
        + keyed("@low", {k: min(r.delta for r in R if r.zone & 1 == k) for k in (0, 1)})
        + keyed("@top", {k: max(r.delta for r in R if r.zone & 1 == k) for k in (0, 1)}),
    ),
    Case(
        "min_and_max_of_negatives_only",
        "usdt:T:depot:parcel { @a = max((int32)arg4 - 100); @b = min((int32)arg4 - 100); @c = max((uint64)arg4); }",
        scalar("@a", -95) + scalar("@b", -104) + scalar("@c", u(-1)),
    ),
    Case(
        "stats",
        "usdt:T:depot:parcel { @ = stats(arg3); @d = stats((int32)arg4 - 9); @k[str(arg1)] = stats(arg3); }",
        stats("@", [r.weight for r in R]) + stats("@d", [r.delta - 9 for r in R]) + stats("@k", weights_by_item()),
    ),
    Case(
        "tseries",
        f"usdt:T:depot:parcel {{ @ = tseries(arg3, {_ONCE}); @k[str(arg1), arg2] = tseries((int32)arg4 - 50, {_ONCE});"
        f' @s = tseries(arg3, {_ONCE}, "sum"); @t[arg2] = tseries((int32)arg4 - 9, {_ONCE}, "avg"); @u ='
        f' tseries((int32)arg4 - 50, {_ONCE}, "max"); @v[(arg2, 1)] = tseries((int32)arg4 - 50, {_ONCE}, "min"); }}',
        series("@", R[-1].weight)
        + series("@k", {(r.item, r.zone): r.delta - 50 for r in R})
        + series("@s", sum(r.weight for r in R))
        + series("@t", {zone: mean([r.delta - 9 for r in group]) for zone, group in by("zone").items()})
        + series("@u", max(r.delta - 50 for r in R))
        + series("@v", {(zone, 1): min(r.delta - 50 for r in group) for zone, group in by("zone").items()}),
    ),
    Case(
        "tseries_that_a_probe_prints_and_clears",
        f'usdt:T:depot:plain {{ @ = tseries(arg0, {_ONCE}, "sum"); if (arg0 % 8 == 3) {{ print(@); clear(@); }} }}'
        f' END {{ @ = tseries(7, {_ONCE}, "sum"); @k[1] = tseries(5, {_ONCE}); delete(@k, 1); }}',
        together(series("@", sum(range(max(first, 1), first + 8))) for first in range(-4, 36, 8))
        + series("@", sum(range(36, 41)) + 7),
        probes=2,
    ),
    Case(
        "tseries_whose_keys_a_probe_asks_for",
        f"usdt:T:depot:plain {{ @[arg0] = tseries(arg0, {_ONCE}); @n = max(len(@)); }} END {{ clear(@); }}",
        scalar("@n", len(R)),
        probes=2,
        refused={"bcc": "series"},
    ),
    Case(
        "quantiles",
        "usdt:T:depot:parcel { @ = quantiles(arg3); @d = quantiles((int32)arg4 * 1000 - 9, 50, 99.95);"
        ' @k[str(arg1)] = quantiles(arg3 * arg3, 25, 75, "1/16"); @m[arg2] ='
        " quantiles((int64)arg0 << 40, 0.001, 100); }",
        quantiles("@", [r.weight for r in R])
        + quantiles("@d", [r.delta * 1000 - 9 for r in R], 50, 99.95)
        + quantiles("@k", {k: [w * w for w in ws] for k, ws in weights_by_item().items()}, 25, 75, bits=3)
        + quantiles("@m", {zone: [r.id << 40 for r in group] for zone, group in by("zone").items()}, 0.001, 100),
    ),
    Case(
        "quantiles_of_unsigned_values_to_the_top",
        "usdt:T:depot:parcel { @ = quantiles((uint64)-arg0, 1, 50); }",
        quantiles("@", [u(-r.id) for r in R], 1, 50),
    ),
    Case(
        "quantiles_that_are_cleared_and_zeroed",
        "usdt:T:depot:plain { @ = quantiles(arg0 * 100, 50); @k[arg0 % 2] = quantiles(arg0, 90);"
        " if (arg0 == 20) { print(@); clear(@); clear(@k); } if (arg0 == 30) { delete(@k, 0); } }",
        quantiles("@", [100 * n for n in range(1, 21)], 50)
        + quantiles("@", [100 * n for n in range(21, 41)], 50)
        + quantiles("@k", {0: list(range(32, 41, 2)), 1: list(range(21, 41, 2))}, 90),
    ),
    Case("hist", "usdt:T:depot:parcel { @w = hist(arg3); }", hist("@w", [r.weight for r in R])),
    Case(
        "hist_by_hand",
        "usdt:T:depot:parcel { @ = hist(arg2); }",
        by_hand(
            "@:\n"
            "[0]                    4 |@@@@@@@@@@@@@                                       |\n"
            "[1]                    4 |@@@@@@@@@@@@@                                       |\n"
            "[2, 4)                 8 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |\n"
            "[4, 8)                16 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n"
            "[8, 16)                8 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |\n"
            "\n",
            '{"type": "hist", "data": {"@": [{"min": 0, "max": 0, "count": 4},{"min": 1, "max": 1, "count": 4},'
            '{"min": 2, "max": 3, "count": 8},{"min": 4, "max": 7, "count": 16},{"min": 8, "max": 15, "count": 8}]}}',
        ),
    ),
    Case("hist_by_key", "usdt:T:depot:parcel { @[str(arg1)] = hist(arg3); }", hist("@", weights_by_item())),
    Case("hist_of_negatives", "usdt:T:depot:parcel { @ = hist((int32)arg4); }", hist("@", [r.delta for r in R])),
    Case("hist_reads_signed", "usdt:T:depot:parcel { @ = hist(arg4); }", hist("@", [r.delta for r in R])),
    Case("hist_with_bits", "usdt:T:depot:parcel { @ = hist(arg3, 2); }", hist("@", [r.weight for r in R], 2)),
    Case(
        "hist_of_large_values",
        "usdt:T:depot:parcel { @ = hist(arg3 * 3000); @h = hist(arg3 * 3000, 1); }",
        hist("@", [r.weight * 3000 for r in R]) + hist("@h", [r.weight * 3000 for r in R], 1),
    ),
    Case(
        "hist_of_the_whole_range",
        "usdt:T:depot:widths { @ = hist(arg6); }",
        hist("@", [r.widths[7] for r in R]),
    ),
    Case(
        "hist_of_zero_alone",
        "usdt:T:depot:parcel /arg2 == 0/ { @ = hist(arg2); }",
        hist("@", [0, 0, 0, 0]),
    ),
    Case("lhist", "usdt:T:depot:parcel { @ = lhist(arg2, 0, 9, 3); }", lhist("@", [r.zone for r in R], 0, 9, 3)),
    Case(
        "lhist_whose_step_does_not_divide_the_range",
        "usdt:T:depot:parcel { @ = lhist(arg2, 0, 8, 3); }",
        lhist("@", [r.zone for r in R], 0, 8, 3),
    ),
    Case(
        "lhist_open_at_both_ends",
        "usdt:T:depot:parcel { @ = lhist((int32)arg4, -2, 3, 1); @k[arg2 & 1] = lhist(arg3, 100, 400, 50); }",
        lhist("@", [r.delta for r in R], -2, 3, 1)
        + lhist("@k", {k: [r.weight for r in R if r.zone & 1 == k] for k in (0, 1)}, 100, 400, 50),
    ),
    Case(
        "lhist_of_kibibytes",
        "usdt:T:depot:parcel { @ = lhist(arg3 * 10, 0, 8192, 2048); }",
        lhist("@", [r.weight * 10 for r in R], 0, 8192, 2048),
    ),
    Case(
        "signed_sum_of_the_whole_range",
        "usdt:T:depot:widths { @ = sum((int64)arg7); }",
        scalar("@", signed(sum(r.widths[7] for r in R))),
    ),
]
