"""`for` over maps in probes: bcc goes over them in an order of its own, so nothing here depends on one."""

from __future__ import annotations

from collections.abc import Iterator

from tests.contract.case import Case
from tests.contract.depot import COLD, LABELS, NULL, rounds
from tests.contract.expect import keyed, mean, no_averages, printf, scalar, together

R = rounds()


def _so_far() -> Iterator[dict[int, list[int]]]:
    """At each hit: the rounds so far by `id & 3`."""
    for last in R:
        ids = range(1, last.id + 1)
        yield {key: found for key in range(4) if (found := [id for id in ids if id & 3 == key])}


def _last() -> Iterator[dict[int, int]]:
    """At each hit: the latest round by `id & 3`."""
    return ({key: ids[-1] for key, ids in seen.items()} for seen in _so_far())


def _cleared() -> dict[str, int]:
    """A walk that clears its map at every tenth hit, and another one behind it."""
    held, rounds, total = {5: 1000}, 0, 0
    for round in R:
        held[round.id & 3] = round.id
        total += sum(held.values())
        held = {} if round.id % 10 == 9 else held
        rounds += len(held)
    return {"@n": rounds, "@s": total}


def _adding() -> int:
    """The rounds of a walk that adds a key in each, over the map as it was at the hit."""
    held: set[int] = set()
    rounds = 0
    for round in R:
        held.add(round.id & 1)
        rounds += len(held)
        held |= {key + 100 for key in held}
    return rounds


_WEIGHTS = {id: round.weight for id, round in enumerate(R, 1)}
_DELTAS = {id: round.delta for id, round in enumerate(R, 1)}
_ITEMS = {round.item: sum(each.weight for each in R if each.item == round.item) for round in R}
_LABELS = [text[:599] for kind, text in enumerate(LABELS) if text is not None and kind not in (COLD, NULL)]
_PRODUCTS = [
    (one, first, other, second)
    for seen in _last() for one, first in seen.items() for other, second in seen.items() if other != 2
]  # fmt: skip

CASES = [
    Case(
        "a_map_walked_in_a_probe",
        "usdt:T:depot:parcel { @n[arg0 & 3] = count(); $all = 0; for ($kv : @n) { if ($kv.0 == 3) { continue; }"
        " @ = sum($kv.1); $all += $kv.1; } @all = sum($all); } END { clear(@n); }",
        scalar("@", (total := sum(len(ids) for seen in _so_far() for key, ids in seen.items() if key < 3)))
        + scalar("@all", total),
        probes=2,
    ),
    Case(
        "a_walk_reads_what_each_kind_of_map_holds",
        "usdt:T:depot:parcel { $k = arg0 & 3; @s[$k] = sum((int64)arg4); @a[$k] = avg(arg3); @l[$k] = min((int64)arg4);"
        " @h[$k] = max(arg3); @v[$k] = arg0; for ($e : @s) { @sums = sum($e.1); } for ($e : @a) { @means = sum($e.1); }"
        " for ($e : @l) { @least = sum($e.1); } for ($e : @h) { @most = sum($e.1); }"
        " for ($e : @v) { @latest[$e.0] = max($e.1); } }"
        " END { clear(@s); clear(@a); clear(@l); clear(@h); clear(@v); }",
        no_averages("@a")
        + keyed("@latest", {round.id & 3: round.id for round in R})
        + scalar("@least", sum(min(_DELTAS[id] for id in ids) for seen in _so_far() for ids in seen.values()))
        + scalar("@means", sum(mean([_WEIGHTS[id] for id in ids]) for seen in _so_far() for ids in seen.values()))
        + scalar("@most", sum(max(_WEIGHTS[id] for id in ids) for seen in _so_far() for ids in seen.values()))
        + scalar("@sums", sum(_DELTAS[id] for seen in _so_far() for ids in seen.values() for id in ids)),
        probes=2,
    ),
    Case(
        "a_walk_over_texts_and_tuples",
        "usdt:T:depot:parcel { @w[str(arg1), arg0 & 1] = (arg3, str(arg1, 4)); for ($kv : @w) {"
        " if (strcontains($kv.0.0, $kv.1.1)) { @same = count(); } @k[$kv.0.0] = max($kv.1.0 + $kv.0.1 * 100000); } }"
        " END { clear(@w); }",
        keyed(
            "@k", {round.item: max(e.weight + (e.id & 1) * 100000 for e in R if e.item == round.item) for round in R}
        )
        + scalar("@same", sum(min(number, 10) for number in range(1, len(R) + 1))),
        probes=2,
    ),
    Case(
        "a_walk_over_texts_of_all_lengths",
        f"usdt:T:depot:label /arg0 != {COLD} && arg0 != {NULL}/ {{ @t[str(arg1, 600)] = arg0; @h = count(); }}"
        f" usdt:T:depot:gauge {{ for ($kv : @t) {{ @l[$kv.0] = strlen($kv.0); @kinds = sum($kv.1); }} }}"
        " END { clear(@t); }",
        scalar("@h", len(_LABELS))
        + scalar("@kinds", sum(kind for kind in range(len(LABELS)) if kind not in (COLD, NULL)))
        + keyed("@l", {text: len(text.encode()) for text in _LABELS}),
        probes=3,
    ),
    Case(
        "a_walk_within_a_walk",
        "usdt:T:depot:parcel { @t[arg0 & 3] = arg0; for ($a : @t) { for ($b : @t) { if ($b.0 == 2) { continue; }"
        " @p = sum($a.1 * $b.1); for ($i : 0..5) { if ($i == 3) { break; } @i = sum($i + $a.0); } } } }"
        " END { clear(@t); }",
        scalar("@i", sum(3 + 3 * one for one, *_ in _PRODUCTS))
        + scalar("@p", sum(first * second for _, first, _, second in _PRODUCTS)),
        probes=2,
    ),
    Case(
        "a_walk_that_changes_and_deletes_where_it_is",
        "usdt:T:depot:parcel { @t[arg0] = arg0; for ($kv : @t) { @t[$kv.0] += 1; if ($kv.0 % 3 == 1) {"
        " delete(@t, $kv.0); } } @n = sum(len(@t)); }",
        scalar("@n", sum(sum(id % 3 != 1 for id in range(1, round.id + 1)) for round in R))
        + keyed("@t", {id: id + len(R) - id + 1 for id in range(1, len(R) + 1) if id % 3 != 1}),
    ),
    Case(
        "a_walk_that_breaks_or_ends_the_clause",
        "usdt:T:depot:parcel { @t[arg0 & 3] = arg0; for ($kv : @t) { @first = count(); break; } for ($kv : @t) {"
        " @second = count(); if (arg0 > 30) { return; } } @behind = count(); } END { clear(@t); }",
        scalar("@behind", 30)
        + scalar("@first", len(R))
        + scalar("@second", sum(len(seen) for seen in list(_last())[:30]) + len(R) - 30),
        probes=2,
    ),
    Case(
        "a_walk_over_a_map_that_is_cleared",
        "BEGIN { @t[77] = 1; clear(@t); @t[5] = 1000; } usdt:T:depot:parcel { @t[arg0 & 3] = arg0; for ($kv : @t) {"
        " @s = sum($kv.1); if (arg0 % 10 == 9) { clear(@t); } } for ($kv : @t) { @n = count(); } } END { clear(@t); }",
        together(scalar(name, number) for name, number in _cleared().items()),
        probes=3,
    ),
    Case(
        "a_walk_prints",
        "usdt:T:depot:parcel /arg0 < 4/ { @t[str(arg1)] = arg0; for ($kv : @t) { if ($kv.1 == arg0) {"
        ' printf("%s %d %s\\n", $kv.0, $kv.1, str(arg1)); } } } END { clear(@t); }',
        together(printf(f"{round.item} {round.id} {round.item}\n") for round in R[:3]),
        probes=2,
    ),
    Case(
        "a_walk_that_adds_keys",
        "usdt:T:depot:parcel { @n[arg0 & 1] = arg0; for ($kv : @n) { @n[$kv.0 + 100] = 1; @rounds = count(); } }"
        " END { clear(@n); }",
        scalar("@rounds", _adding()),
        probes=2,
        refused={"bcc": "walk"},
    ),
]
