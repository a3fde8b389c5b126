"""Which keys are few and known before the first hit, and where each has its place."""

from __future__ import annotations

import struct

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe, site
from tracer.backends.bcc.codegen.generate import generate
from tracer.backends.bcc.maps.dense import Grid, Numbers, Texts, going_on, grids, with_room
from tracer.backends.bcc.maps.tables import tables
from tracer.kinds.site import Const, Mem, Reg
from tracer.results.values import Key


def keys(body: str, *arguments: tuple[int, bool, Reg | Mem | Const]) -> list[Key] | None:
    """The keys of the map `@`, in the order of their places; None where they are not few and known."""
    sites = (site(arguments=arguments),) if arguments else ()
    grid = grids(plan_of(probe(body), *sites)).get("@")
    return None if grid is None else [grid.key(place) for place in range(grid.count)]


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("arg0 & 15", 0, 15),
        ("15 & arg0", 0, 15),
        ("(int64)arg0 & 7", 0, 7),
        ("arg0 % 10", -9, 9),
        ("arg1 % 10", 0, 9),
        ("(int64)arg0 % 3", -2, 2),
        ("arg1 % 10 + 5", 5, 14),
        ("(arg0 & 7) - (arg1 & 1)", -1, 7),
        ("(arg0 & 3) * 2", 0, 6),
        ("(arg0 & 255) / 16", 0, 15),
        ("arg1 >> 60", 0, 15),
        ("(arg0 & 4) | (arg1 & 3)", 0, 7),
        ("(uint8)arg1", 0, 255),
        ("(int8)arg1", -128, 127),
        ("(uint8)(arg0 & 3)", 0, 3),
        ("arg0 > 1 ? 3 : 5", 3, 5),
        ("7", 7, 7),
        ("-7", -7, -7),
    ],
)
def test_a_small_range_has_a_place_for_each_value(key: str, low: int, high: int) -> None:
    assert keys(f"{{ @[{key}] = count(); }}") == [(value,) for value in range(low, high + 1)]


@pytest.mark.parametrize(
    "key",
    [
        "arg0",
        "arg0 & arg1",
        "(int64)arg0 & -2",
        "arg0 % arg1",
        "arg0 % 5000",
        "(int64)arg0 >> 60 << 62",
        "(uint8)arg0 << 60",
        "(arg0 & 15) + arg1",
        "tid",
        "cpu",
        "comm",
        "str(arg1)",
        'arg0 > 1 ? comm : "none"',
        "nsecs & 15, pid",
    ],
)
def test_what_can_be_anything_has_none(key: str) -> None:
    assert keys(f"{{ @[{key}] = count(); }}") is None


def test_a_number_that_wraps_can_be_anything_of_its_type() -> None:
    assert keys("{ @[(uint8)((arg0 & 1) + 255)] = count(); }") == [(value,) for value in range(256)]
    assert keys("{ @[(arg0 & 1) - 1] = count(); }") == [(-1,), (0,)]


def test_bools_and_constant_texts_are_known() -> None:
    assert keys("{ @[arg0 > 1] = count(); }") == [(False,), (True,)]
    body = '{ @["in"] = count(); @[arg0 > 1 ? "big" : "in"] = count(); }'
    assert keys(body) == [(b"in",), (b"big",)]


SITES = [site(name, function=function) for name, function in (("in", "read"), ("out", "write"), ("err", "write"))]


def test_the_texts_of_sites_are_known() -> None:
    keys = {"": "func", "p": "probe", "t": 'arg0 > 1 ? func : "none"', "b": "func, arg0 & 1"}
    body = f"{{ {' '.join(f'@{name}[{key}] = count();' for name, key in keys.items())} }}"
    found = {
        name: [grid.key(at) for at in range(grid.count)] for name, grid in grids(plan_of(probe(body), *SITES)).items()
    }
    assert found == {
        "@": [(b"read",), (b"write",)],
        "@p": [(b"usdt:/bin/app:shop:in",), (b"usdt:/bin/app:shop:out",), (b"usdt:/bin/app:shop:err",)],
        "@t": [(b"read",), (b"write",), (b"none",)],
        "@b": [(b"read", 0), (b"read", 1), (b"write", 0), (b"write", 1)],
    }


def test_each_site_has_the_places_of_its_texts_behind_them() -> None:
    body = "{ @[func] = count(); @p[probe] = sum(arg0); }"
    texts = generate(plan_of(f"{probe(body)} {probe('{ @p[probe] = sum(1); }')}", *SITES)).site_texts
    assert len(texts.places) == 2 and len({len(words) for words in texts.words.values()} | {8 * texts.count}) == 1
    places = [struct.unpack("=2Q", words[-16:]) for words in texts.words.values()]
    # A text of the second clause alone has no place in the first one's map, which that clause does not touch.
    assert places == [(0, 0), (1, 1), (1, 2), (0, 0), (0, 1), (0, 2)]


BY_FUNCTION = probe("{ @[func] = count(); }")


def test_ten_thousand_functions_are_an_array_but_not_twenty_thousand() -> None:
    for number, kind in ((10_000, "array"), (20_000, "hash")):
        sites = [site(function=f"f{at}") for at in range(number)]
        (table,) = tables(
            plan_of(f"config = {{ max_probes = 30000 }} {probe('{ @[func] = count(); }')}", *sites)
        ).values()
        assert table.describe() == f"@: per CPU {kind} of u64"


def test_a_key_of_several_parts_is_a_grid() -> None:
    assert keys('{ @[arg0 & 1, "a"] = count(); @[arg1 & 1, "b"] = count(); }') == [
        (0, b"a"), (0, b"b"), (1, b"a"), (1, b"b"),
    ]  # fmt: skip


def test_arguments_of_a_byte_and_constants_are_bounded_at_all_sites() -> None:
    body = "{ @[arg0] = count(); }"
    assert keys(body, (1, False, Reg("di"))) == [(value,) for value in range(256)]
    assert keys(body, (4, False, Const(3))) == [(3,)]
    assert keys(body, (1, True, Reg("di"))) == [(value,) for value in range(-128, 128)]
    assert keys(body, (1, True, Const(-3))) == [(-3,)]
    sites = [site(arguments=((4, False, Const(value)),)) for value in (3, 5)]
    grid = grids(plan_of(probe(body), *sites))["@"]
    assert [grid.key(place) for place in range(grid.count)] == [(3,), (4,), (5,)]


def test_a_thousand_sites_with_constants_of_their_own_nest_nothing_by_site() -> None:
    sites = [site(arguments=((4, False, Const(value)),)) for value in range(2000)]
    grid = grids(plan_of(probe("{ @[arg0] = count(); }"), *sites))["@"]
    assert (grid.count, grid.key(0), grid.key(1999)) == (2000, (0,), (1999,))


def test_all_uses_count_and_one_that_is_not_known_makes_it_a_hash() -> None:
    assert keys("{ @[arg0 & 3] = count(); @[arg1 & 7] = count(); }") == [(value,) for value in range(8)]
    assert keys("{ @[arg0 & 3] = count(); @[arg1] = count(); }") is None


@pytest.mark.parametrize(
    ("body", "description", "entries"),
    [
        ("{ @[arg0 & 15] = count(); }", "@: per CPU array of u64", 16),
        ("{ @[arg0 & 15]++; }", "@: per CPU array of u64", 16),
        ("{ @[arg0 & 15] = stats(arg1); }", "@: per CPU array of u64 hits, u64 total", 16),
        ("{ @[arg0 & 15] = max(arg1); }", "@: per CPU array of u64, larger is further out", 16),
        ("{ @[arg0 & 15] = hist(arg1); }", "@: per CPU array of u64", 16 * 65),
        ("{ @[arg0 & 63] = hist(arg1); }", "@: per CPU hash of u64", 16 * 16384),
        ("{ @[arg0 & 15] = arg1; }", "@: shared hash of value", 16384),
        ("{ @[arg0 & 15] = count(); delete(@, 3); }", "@: per CPU hash of u64", 16384),
        ("{ @[arg0 & 15] = count(); if (has_key(@, 3)) { exit(); } }", "@: shared hash of u64", 16384),
        ("{ @[arg0 & 15] = count(); clear(@); }", "@: per CPU hash of u64, mark in the key", 1 << 16),
    ],
)
def test_such_a_map_is_an_array_where_probes_do_nothing_but_add(body: str, description: str, entries: int) -> None:
    (table,) = tables(plan_of(probe(body))).values()
    assert (table.describe(), table.max_entries) == (description, entries)


def test_a_limit_below_the_number_of_keys_keeps_the_hash_which_counts_what_it_drops() -> None:
    (table,) = tables(plan_of("config = { max_map_keys = 8 } " + probe("{ @[arg0 & 15] = count(); }"))).values()
    assert table.describe() == "@: per CPU hash of u64"


def test_an_interval_may_clear_counts_in_an_array_but_not_extremes() -> None:
    text = probe("{ @c[arg0 & 3] = count(); @m[arg0 & 3] = max(arg1); }") + " interval:s:1 { clear(@c); clear(@m); }"
    assert [table.describe() for table in tables(plan_of(text)).values()] == [
        "@c: per CPU array of u64",
        "@m: per CPU hash of u64, larger is further out, generation in the key",
    ]


def test_an_interval_may_delete_counts_in_an_array_but_not_extremes() -> None:
    text = probe("{ @c[arg0 & 3] = count(); @m[arg0 & 3] = max(arg1); @n = min(arg1); }")
    text += " interval:s:1 { delete(@c, 1); delete(@m, 1); delete(@n); } END { delete(@c, 2); }"
    assert [table.describe() for table in tables(plan_of(text)).values()] == [
        "@c: per CPU array of u64",
        "@m: per CPU hash of u64, larger is further out",
        "@n: per CPU hash of u64, larger is further out",
    ]


def test_what_is_deleted_at_the_end_alone_stays_in_its_array() -> None:
    (table,) = tables(plan_of(probe("{ @[arg0 & 3] = max(arg1); }") + " END { delete(@, 1); }")).values()
    assert table.describe() == "@: per CPU array of u64, larger is further out"


def texts(*known: str, spare: int = 0, built_ins: tuple[str, ...] = ("func",)) -> Grid:
    return Grid((Texts(tuple(text.encode() for text in known), frozenset(built_ins), spare),))


def test_keys_of_sites_get_room_for_those_that_come_later() -> None:
    assert with_room(texts("f", "g"), 4096) == texts("f", "g", spare=126)
    assert with_room(texts("f", "g"), 100) == texts("f", "g", spare=64)
    assert with_room(texts("f", "g"), 10) == texts("f", "g")
    many = texts(*map(str, range(200)))
    assert with_room(many, 4096).count == 1224
    assert with_room(texts("yes", built_ins=()), 4096) == texts("yes", built_ins=())


def test_an_array_goes_on_with_keys_in_its_spare_places() -> None:
    before = texts("f", "g", spare=2)
    assert going_on(before, texts("h", "g")) == texts("f", "g", "h", spare=1)
    assert going_on(before, texts("h", "i", "k")) is None
    assert [before.key(place) for place in range(before.count)] == [(b"f",), (b"g",), (b"",), (b"",)]
    numbers = Grid((Numbers(-4, 16, False),))
    assert going_on(numbers, Grid((Numbers(0, 8, False),))) == numbers
    assert going_on(numbers, Grid((Numbers(0, 16, False),))) is None
    assert going_on(numbers, before) is None
