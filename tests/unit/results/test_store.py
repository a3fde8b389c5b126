from __future__ import annotations

import pytest

from tests.typed_ir import clause, map_of, program
from tracer.dataclass import replace
from tracer.lang.typed import Config, MapDecl
from tracer.lang.types import INT64, UINT64, IntType, StringType
from tracer.results.events import Loss
from tracer.results.store import UNSET, LocalMaps
from tracer.results.values import Average


def store(*maps: MapDecl, limit: int = 16384) -> LocalMaps:
    return LocalMaps(program([clause([])], maps, config=Config(max_map_keys=limit)))


def test_scalars_are_set_added_to_and_wrap_at_their_width() -> None:
    maps = store(map_of("@", "scalar", UINT64, value=IntType(8, True)))
    maps.set("@", (1,), 127)
    maps.add("@", (1,), 1)
    maps.add("@", (2,), -3)
    assert maps.snapshot("@").items == {(1,): -128, (2,): -3}
    assert maps.get("@", (9,)) is None


def test_each_aggregation_keeps_its_form() -> None:
    kinds: tuple[str, ...] = ("count", "sum", "min", "max", "avg", "stats", "hist", "lhist")
    maps = store(*(map_of(f"@{kind}", kind, parameters={"lhist": (0, 10, 5)}.get(kind, ())) for kind in kinds))
    for value in (7, -3, 7):
        for kind in kinds:
            maps.aggregate(f"@{kind}", (), kind, value)
    assert {kind: maps.get(f"@{kind}", ()) for kind in kinds} == {
        "count": 3,
        "sum": 11,
        "min": -3,
        "max": 7,
        "avg": Average(3, 11),
        "stats": Average(3, 11),
        "hist": {4: 2, 0: 1},
        "lhist": {2: 2, 0: 1},
    }


def test_values_of_an_unsigned_map_are_read_as_unsigned() -> None:
    maps = store(map_of("@min", "min", value=UINT64), map_of("@max", "max", value=INT64))
    for value in (2**64 - 1, 5):
        maps.aggregate("@min", (), "min", value)
        maps.aggregate("@max", (), "max", value)
    assert (maps.get("@min", ()), maps.get("@max", ())) == (5, 5)
    maps.aggregate("@max", (), "max", 2**64 - 1)
    assert maps.get("@max", ()) == 5


def test_a_full_map_drops_new_keys_and_counts_them() -> None:
    maps = store(map_of("@", "count", UINT64), map_of("@x", "scalar", UINT64), map_of("@h", "hist", UINT64), limit=1)
    for key in (1, 2, 1, 3):
        maps.aggregate("@", (key,), "count", 0)
        maps.set("@x", (key,), key)
        maps.add("@x", (key,), 1)
        maps.aggregate("@h", (key,), "hist", key)
    assert maps.snapshot("@").items == {(1,): 2}
    assert maps.snapshot("@x").items == {(1,): 2}
    assert maps.loss == Loss(keys=8, full=frozenset({"@", "@x", "@h"}))


def test_a_full_map_that_forgets_drops_the_key_written_longest_ago() -> None:
    scalar = replace(map_of("@", "scalar", UINT64), most=2, forgets=True)
    maps = store(scalar, replace(map_of("@c", "count", UINT64), most=2, forgets=True))
    for key in (1, 2, 1, 3):
        maps.set("@", (key,), key)
        maps.aggregate("@c", (key,), "count", 0)
    assert maps.snapshot("@").items == {(1,): 1, (3,): 3}
    assert maps.snapshot("@c").items == {(1,): 2, (3,): 1}
    maps.add("@", (1,), 5)
    maps.set("@", (4,), 4)
    assert maps.snapshot("@").items == {(1,): 6, (4,): 4}
    assert maps.loss.keys == 0


def test_zero_keeps_the_keys_and_clear_does_not() -> None:
    kinds: tuple[str, ...] = ("count", "sum", "min", "max", "avg", "stats", "hist")
    maps = store(map_of("@x", "scalar"), *(map_of(f"@{kind}", kind, UINT64) for kind in kinds))
    maps.set("@x", (), 5)
    maps.zero("@x")
    assert maps.get("@x", ()) == 0
    for kind in kinds:
        maps.aggregate(f"@{kind}", (1,), kind, 5)
        maps.zero(f"@{kind}")
    assert [maps.get(f"@{kind}", (1,)) for kind in kinds] == [0, 0, 0, 0, Average(0, 0), Average(0, 0), {}]
    maps.clear("@sum")
    assert maps.get("@sum", (1,)) is None


@pytest.mark.parametrize(("kind", "value"), [("min", 9), ("min", -9), ("max", 9), ("max", -9)])
def test_after_zero_any_value_is_the_least_and_the_greatest(kind: str, value: int) -> None:
    maps = store(map_of("@", kind))
    maps.aggregate("@", (), kind, 1)
    maps.zero("@")
    assert maps.partial("@")[()] is UNSET
    maps.aggregate("@", (), kind, value)
    assert maps.get("@", ()) == value


def test_zero_of_a_string_is_the_empty_one() -> None:
    maps = store(map_of("@", "scalar", value=StringType(8)))
    maps.set("@", (), b"tea")
    maps.zero("@")
    assert maps.get("@", ()) == b""


def test_a_snapshot_does_not_follow_later_changes() -> None:
    maps = store(map_of("@", "hist"), map_of("@n", "count"))
    maps.aggregate("@", (), "hist", 1)
    maps.aggregate("@n", (), "count", 1)
    before = maps.snapshot("@"), maps.snapshot("@n")
    maps.aggregate("@", (), "hist", 1)
    maps.aggregate("@n", (), "count", 1)
    assert (before[0].items, before[1].items) == ({(): {2: 1}}, {(): 1})


def test_delete_of_an_absent_key_is_no_error() -> None:
    maps = store(map_of("@", "count", UINT64))
    maps.aggregate("@", (1,), "count", 1)
    maps.delete("@", (2,))
    maps.delete("@", (1,))
    assert maps.snapshot("@").items == {}
