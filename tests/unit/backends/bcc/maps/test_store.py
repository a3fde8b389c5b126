"""A session's maps, over an in-memory bpf(2): every order of hits, readings and clears, one after the other."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

import pytest

from tests.harness.bpf import DELETE_BATCH, LOOKUP, LOOKUP_BATCH, UPDATE
from tests.unit.backends.bcc.maps.rig import Rig, rigs
from tests.unit.backends.bcc.plans import probe
from tracer.backends.bcc.maps.contents import Raw
from tracer.backends.bcc.maps.kernel_map import KernelMap
from tracer.results.values import Average, Key

Make = Callable[..., Rig]
CLEARED = " interval:s:9 { clear(@); }"

# One map of each form: what probes do with it, and what `hit` of 5 and 9 gives.
ARRAY, HASH, SHARED = "in an array", "in a hash", "read by a probe, too"
FORMS = {
    (ARRAY, "count"): ("{ @[arg4 & 3] = count(); }", 2),
    (HASH, "count"): ("{ @[arg1] = count(); }", 2),
    (SHARED, "count"): ("{ @[arg1] = count(); if (@[arg1] > 5) { exit(); } }", 2),
    (ARRAY, "sum"): ("{ @[arg4 & 3] = sum(arg1); }", 14),
    (HASH, "sum"): ("{ @[arg1] = sum(arg1); }", 14),
    (HASH, "++"): ("{ @[arg1]++; }", 2),
    (ARRAY, "avg"): ("{ @[arg4 & 3] = avg(arg1); }", Average(2, 14)),
    (HASH, "stats"): ("{ @[arg1] = stats(arg1); }", Average(2, 14)),
    (HASH, "max"): ("{ @[arg1] = max((int64)arg1); }", 9),
    (HASH, "min"): ("{ @[arg1] = min(arg1); }", 5),
    (ARRAY, "hist"): ("{ @[arg4 & 3] = hist(arg1); }", {4: 1, 5: 1}),
    (HASH, "hist"): ("{ @[arg1] = hist(arg1); }", {4: 1, 5: 1}),
}


@pytest.fixture
def make() -> Iterator[Make]:
    with rigs() as make:
        yield make


@pytest.fixture(params=FORMS, ids=lambda form: f"{form[1]} {form[0]}")
def form(request: pytest.FixtureRequest) -> tuple[str, object]:
    return FORMS[request.param]


def hit_twice(maps: Rig, key: Key = (1,)) -> None:
    maps.hit("@", key, 5, cpu=0)
    maps.hit("@", key, 9, cpu=3 if maps.tables["@"].per_cpu else 0)


def test_the_parts_of_all_cpus_are_one_value(make: Make, form: tuple[str, object]) -> None:
    body, expected = form
    maps = make(probe(body))
    hit_twice(maps)
    assert maps.items("@") == {(1,): expected}
    assert maps.maps.get("@", (1,)) == expected
    assert maps.maps.get("@", (2,)) is None


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("max((int64)arg1)", (-5, -9), -5),
        ("max(arg1)", (-5, 9), 2**64 - 5),
        ("min((int64)arg1)", (-5, 9), -5),
        ("min(arg1)", (-5, 9), 9),
        ("sum((int64)arg1)", (2**63 - 1, 1), -(2**63)),
        ("sum(arg1)", (2**64 - 1, 3), 2),
        ("avg((int64)arg1)", (-5, -9), Average(2, -14)),
    ],
)
@pytest.mark.parametrize("key", ["", "[arg1]"])
def test_values_have_the_sign_of_the_map(
    make: Make, function: str, values: tuple[int, int], expected: object, key: str
) -> None:
    maps = make(probe(f"{{ @{key} = {function}; }}"))
    for cpu, value in enumerate(values):
        maps.hit("@", (7,) if key else (), value, cpu)
    assert maps.items("@") == {((7,) if key else ()): expected}


def test_a_counter_wraps_at_the_width_of_its_map(make: Make) -> None:
    maps = make(probe("{ @++; }"))
    maps.hit("@")
    maps.maps.add("@", (), 2**63 - 1)
    assert maps.items("@") == {(): -(2**63)}


def test_what_no_hit_reached_is_not_there(make: Make) -> None:
    maps = make(probe("{ @c = count(); @a[arg4 & 3] = max((int64)arg1); @h = hist(arg1); @k[arg1] = sum(arg1); }"))
    assert [maps.items(name) for name in ("@c", "@a", "@h", "@k")] == [{}, {}, {}, {}]
    maps.hit("@a", (2,), -(2**63))  # of all values the least: its number is 0
    assert maps.items("@a") == {(2,): -(2**63)}


def test_a_map_that_no_probe_touches_is_user_spaces_alone(make: Make) -> None:
    maps = make("BEGIN { @ = count(); @x[1] = 5; }")
    maps.maps.aggregate("@", (), "count", 0)
    maps.maps.set("@x", (1,), 4)
    maps.maps.add("@x", (1,), 1)
    assert (maps.items("@"), maps.items("@x"), maps.maps.get("@x", (2,))) == ({(): 1}, {(1,): 5}, None)
    maps.maps.zero("@x")
    maps.maps.clear("@")
    maps.maps.delete("@x", (2,))
    assert (maps.items("@"), maps.items("@x")) == ({}, {(1,): 0})


# --- clear, delete, zero and set in user space ---


def test_each_hit_is_in_one_interval(make: Make, form: tuple[str, object]) -> None:
    body, expected = form
    maps = make(probe(body) + CLEARED)
    hit_twice(maps)
    assert maps.taken("@") == {(1,): expected}
    assert maps.items("@") == {}
    hit_twice(maps)
    assert maps.taken("@") == {(1,): expected}
    maps.settle()
    hit_twice(maps, (2,))
    assert maps.taken("@") == {(2,): expected}


def test_a_hit_between_reading_and_clearing_is_in_the_next_interval(make: Make, form: tuple[str, object]) -> None:
    body, expected = form
    maps = make(probe(body) + CLEARED)
    maps.hit("@", (1,), 5)
    maps.fake.on_next(LOOKUP_BATCH, lambda: hit_twice(maps, (2,)), after=True)
    assert len(maps.taken("@")) == 1
    assert maps.items("@") == {(2,): expected}
    maps.settle()
    assert maps.taken("@") == {(2,): expected}
    assert maps.taken("@") == {}


def test_inside_a_handler_a_map_is_read_once(make: Make) -> None:
    maps = make(probe("{ @[arg1] = count(); @x[arg1] = arg1; }"))
    maps.hit("@", (1,))
    maps.assign("@x", (1,), 5)
    maps.maps.begin_handler()
    before = maps.items("@"), maps.items("@x")
    maps.hit("@", (1,))
    maps.assign("@x", (2,), 6)
    assert (maps.items("@"), maps.items("@x")) == before == ({(1,): 1}, {(1,): 5})
    maps.maps.end_handler()
    assert (maps.items("@"), maps.items("@x")) == ({(1,): 2}, {(1,): 5, (2,): 6})


def test_elements_of_cleared_generations_go_once_nothing_is_added_to_them(make: Make, form: tuple[str, object]) -> None:
    body, _ = form
    maps = make(probe(body) + CLEARED)
    hit_twice(maps)
    maps.taken("@")
    held = maps.map("@")
    there = dict(held.elements)
    maps.items("@")
    assert held.elements == there  # a program may still add to them
    maps.settle()
    maps.items("@")
    assert held.is_array or held.elements == {}


def test_what_a_stopped_program_adds_late_is_kept_for_the_next_interval(make: Make) -> None:
    maps = make(probe("{ @[arg1] = count(); }") + CLEARED)
    maps.hit("@", (1,))
    maps.taken("@")
    (raw,) = maps.map("@").elements
    maps.map("@").put(raw, [2], cpu=0)
    maps.settle()
    assert maps.items("@") == {(1,): 1}
    assert maps.taken("@") == {(1,): 1}
    maps.settle()
    assert maps.items("@") == {} == maps.map("@").elements


def test_many_clears_one_after_the_other(make: Make, form: tuple[str, object]) -> None:
    body, expected = form
    maps = make(probe(body) + CLEARED)
    for _ in range(5):
        hit_twice(maps)
        assert maps.taken("@") == {(1,): expected}
        maps.clock.now += 0.03
    maps.settle()
    assert maps.items("@") == {}
    assert maps.map("@").is_array or not maps.map("@").elements


def test_delete_takes_what_was_read_and_no_later_hit(make: Make, form: tuple[str, object]) -> None:
    body, expected = form
    maps = make(probe(body))
    hit_twice(maps)
    maps.hit("@", (2,), 5)
    maps.maps.delete("@", (1,))
    assert list(maps.items("@")) == [(2,)]
    hit_twice(maps)
    assert maps.items("@")[(1,)] == expected


def test_the_length_that_probes_see_follows_user_space(make: Make) -> None:
    maps = make(probe("{ @[arg1] = count(); @x[arg1] = arg1; if (len(@) + len(@x) > 9) { exit(); } }") +
                " interval:s:9 { clear(@); clear(@x); }")  # fmt: skip
    maps.hit("@", (1,))
    maps.hit("@", (2,))
    maps.assign("@x", (1,), 1)
    maps.maps.set("@x", (1,), 2)
    maps.maps.set("@x", (2,), 2)
    assert (maps.length("@"), maps.length("@x")) == (2, 2)
    maps.maps.delete("@", (1,))
    maps.maps.delete("@x", (1,))
    maps.maps.delete("@x", (7,))
    assert (maps.length("@"), maps.length("@x")) == (1, 1)
    maps.maps.clear("@")
    maps.maps.clear("@x")
    assert (maps.length("@"), maps.length("@x")) == (0, 0)
    maps.assign("@x", (1,), 1)
    assert maps.length("@x") == 1


def test_zero_keeps_the_keys(make: Make, form: tuple[str, object]) -> None:
    body, expected = form
    maps = make(probe(body) + " interval:s:9 { zero(@); }")
    hit_twice(maps)
    maps.maps.zero("@")
    zero: object = {dict: {}, Average: Average(0, 0)}.get(type(expected), 0)
    assert maps.items("@") == {(1,): zero}
    hit_twice(maps)
    assert maps.items("@") == {(1,): expected}


def test_user_spaces_part_is_merged(make: Make) -> None:
    maps = make(probe("{ @c[arg1] = count(); @h = hist(arg1); @m = max((int64)arg1); @a = avg(arg1); @n++; }"))
    for name, key in (("@c", (1,)), ("@h", ()), ("@m", ()), ("@a", ()), ("@n", ())):
        maps.hit(name, key, 5)
    maps.maps.aggregate("@c", (1,), "count", 0)
    maps.maps.aggregate("@c", (2,), "count", 0)
    maps.maps.aggregate("@h", (), "hist", 5)
    maps.maps.aggregate("@m", (), "max", 4)
    maps.maps.aggregate("@a", (), "avg", 7)
    maps.maps.add("@n", (), 10)
    found = {name: maps.items(name) for name in ("@c", "@h", "@m", "@a", "@n")}
    assert found == {
        "@c": {(1,): 2, (2,): 1}, "@h": {(): {4: 2}}, "@m": {(): 5}, "@a": {(): Average(2, 12)}, "@n": {(): 11},
    }  # fmt: skip


def test_a_value_that_is_set_takes_the_place_of_what_was_counted(make: Make) -> None:
    maps = make(probe("{ @n++; }"))
    maps.hit("@n")
    maps.maps.set("@n", (), 100)
    assert maps.items("@n") == {(): 100}
    maps.hit("@n")
    assert maps.items("@n") == {(): 101}


# --- scalars ---

SCALAR = "{ @[arg1] = (int64)arg1; }"


def test_scalars_are_read_and_written_in_place(make: Make) -> None:
    maps = make(probe(SCALAR))
    maps.assign("@", (1,), -3)
    maps.maps.set("@", (2,), 2**63 - 1)
    maps.maps.add("@", (2,), 1)
    maps.maps.add("@", (3,), 4)
    assert maps.items("@") == {(1,): -3, (2,): -(2**63), (3,): 4}
    assert len(maps.map("@").elements) == 3
    maps.maps.delete("@", (1,))
    maps.maps.clear("@")
    assert maps.items("@") == {} == maps.map("@").elements


def test_what_a_handler_writes_it_reads(make: Make) -> None:
    maps = make(probe(SCALAR) + CLEARED)
    maps.assign("@", (1,), 3)
    maps.maps.begin_handler()
    assert maps.items("@") == {(1,): 3}
    maps.maps.set("@", (2,), 5)
    maps.maps.add("@", (1,), 5)
    maps.maps.delete("@", (3,))
    assert maps.items("@") == {(1,): 8, (2,): 5}
    maps.maps.delete("@", (2,))
    assert maps.items("@") == {(1,): 8}
    maps.maps.clear("@")
    maps.maps.set("@", (4,), 4)
    assert maps.items("@") == {(4,): 4}
    maps.maps.end_handler()
    assert maps.items("@") == {(4,): 4}


def test_an_assignment_between_reading_and_clearing_is_carried_over(make: Make) -> None:
    maps = make(probe("{ @[arg1] = (int64)arg1; if (len(@) > 3) { exit(); } }") + CLEARED)
    maps.assign("@", (1,), 3)
    maps.fake.on_next(LOOKUP_BATCH, lambda: maps.assign("@", (1,), 4), after=True)
    assert maps.taken("@") == {(1,): 3}
    assert maps.items("@") == {(1,): 4}
    assert maps.length("@") == 1
    maps.settle()
    assert maps.items("@") == {(1,): 4}
    assert len(maps.map("@").elements) == 1


def test_what_a_program_assigns_anew_is_not_overwritten_by_what_is_carried_over(make: Make) -> None:
    maps = make(probe(SCALAR) + CLEARED)
    maps.assign("@", (1,), 3)
    maps.fake.on_next(LOOKUP_BATCH, lambda: maps.assign("@", (1,), 4), after=True)
    maps.fake.on_next(LOOKUP_BATCH, lambda: maps.assign("@", (1,), 5), after=True)
    assert maps.taken("@") == {(1,): 3}
    assert maps.items("@") == {(1,): 5}


@pytest.mark.parametrize("number", [errno.E2BIG, errno.ENOMEM])
def test_what_finds_no_room_is_counted(make: Make, number: int) -> None:
    maps = make(probe(SCALAR) + CLEARED)
    maps.fake.errors[UPDATE] = number
    maps.maps.set("@", (1,), 3)
    assert maps.maps.loss.keys == 1
    maps.assign("@", (1,), 3)
    maps.fake.on_next(LOOKUP_BATCH, lambda: maps.assign("@", (1,), 4), after=True)
    maps.fake.errors[UPDATE] = number
    assert maps.taken("@") == {(1,): 3}
    assert maps.maps.loss.keys == 2


def test_an_error_that_is_no_lack_of_room_is_an_error(make: Make) -> None:
    maps = make(probe("{ @[arg1] = (int64)arg1; if (len(@) > 3) { exit(); } }") + CLEARED)
    maps.fake.errors[UPDATE] = errno.EINVAL
    with pytest.raises(OSError, match="Invalid"):
        maps.maps.set("@", (1,), 3)
    maps.assign("@", (1,), 3)
    maps.fake.on_next(LOOKUP_BATCH, lambda: maps.assign("@", (1,), 4), after=True)
    maps.fake.errors[UPDATE] = errno.EINVAL
    with pytest.raises(OSError, match="Invalid"):
        maps.taken("@")


def test_zero_of_scalars_writes_zeros_that_probes_see(make: Make) -> None:
    maps = make(probe(SCALAR) + " interval:s:9 { zero(@); }")
    maps.assign("@", (1,), 5)
    maps.maps.zero("@")
    assert maps.items("@") == {(1,): 0}
    maps.settle()
    assert maps.items("@") == {(1,): 0}
    assert len(maps.map("@").elements) == 1


def test_short_and_long_keys_lie_in_tables_of_their_own(make: Make) -> None:
    maps = make(probe("{ @[str(arg1)] = count(); @x[str(arg1)] = arg1; }") + " interval:s:9 { clear(@); }")
    for text in (b"tea", b"t" * 100, b"t" * 500):
        maps.hit("@", (text,))
        maps.assign("@x", (text,), len(text))
    assert [len(maps.map("@", tier).elements) for tier in range(3)] == [1, 1, 1]
    assert maps.items("@x") == {(b"tea",): 3, (b"t" * 100,): 100, (b"t" * 500,): 500}
    maps.maps.delete("@x", (b"t" * 100,))
    assert [len(maps.map("@x", tier).elements) for tier in range(3)] == [1, 0, 1]
    assert len(maps.taken("@")) == 3
    maps.settle()
    maps.items("@")
    assert [len(maps.map("@", tier).elements) for tier in range(3)] == [0, 0, 0]


# --- clear and zero in probes ---


def marked(body: str, tail: str = "") -> str:
    """The same where a probe clears and zeroes the map."""
    body = body.rstrip("} ")
    return probe(body + " if (arg0 == 1) { print(@); clear(@); } if (arg0 == 2) { zero(@); } }") + tail


MARKED = {key: form for key, form in FORMS.items() if key[0] == HASH}


@pytest.fixture(params=MARKED, ids=lambda form: str(form[1]))
def marked_form(request: pytest.FixtureRequest) -> tuple[str, object]:
    body, expected = MARKED[request.param]
    return body + " }", expected


def test_a_print_shows_what_the_clear_behind_it_ended(make: Make, marked_form: tuple[str, object]) -> None:
    body, expected = marked_form
    maps = make(marked(body))
    hit_twice(maps)
    mark = maps.mark("@")
    maps.reset("@")
    hit_twice(maps, (2,))
    assert maps.printed("@", mark) == {(1,): expected}
    maps.maps.note_reset("@", mark, True)
    assert maps.items("@") == {(2,): expected}
    maps.settle()
    maps.maps.tidy()
    assert maps.items("@") == {(2,): expected}
    assert len({raw[8:16] for raw in maps.map("@").elements}) == 1


def test_what_is_added_to_a_printed_element_is_in_the_next_print(make: Make) -> None:
    maps = make(marked("{ @[arg1] = count(); }"))
    maps.hit("@", (1,))
    (raw,) = maps.map("@").elements
    mark = maps.mark("@")
    maps.reset("@")
    assert maps.printed("@", mark) == {(1,): 1}
    maps.maps.note_reset("@", mark, True)
    maps.map("@").put(raw, [3])  # a program that had found it before
    assert maps.items("@") == {(1,): 2}
    maps.hit("@", (1,))
    assert maps.items("@") == {(1,): 3}
    maps.settle()
    maps.maps.tidy()
    assert maps.items("@") == {(1,): 3}
    assert maps.maps.get("@", (1,)) == 3


def test_what_was_never_printed_goes_with_its_clear(make: Make) -> None:
    maps = make(marked("{ @[arg1] = count(); }"))
    maps.hit("@", (1,))
    mark = maps.reset("@")
    maps.maps.note_reset("@", mark, True)
    assert maps.items("@") == {}
    maps.settle()
    maps.maps.tidy()
    assert maps.map("@").elements == {}
    maps.maps.tidy()


def test_zero_in_a_probe_keeps_the_keys_though_their_elements_go(make: Make, marked_form: tuple[str, object]) -> None:
    body, expected = marked_form
    maps = make(marked(body))
    hit_twice(maps)
    zero: object = {dict: {}, Average: Average(0, 0)}.get(type(expected), 0)
    mark = maps.reset("@", cleared=False)
    maps.maps.note_reset("@", mark, False)
    assert maps.items("@") == {(1,): zero}
    maps.settle()
    maps.maps.tidy()
    assert maps.map("@").elements == {}
    assert maps.items("@") == {(1,): zero}
    hit_twice(maps)
    assert maps.items("@") == {(1,): expected}
    mark = maps.reset("@")
    maps.maps.note_reset("@", mark, True)
    assert maps.items("@") == {}
    maps.settle()
    maps.maps.tidy()
    assert maps.items("@") == {} == maps.map("@").elements


def test_a_key_that_zero_keeps_can_be_deleted(make: Make) -> None:
    for body in ("{ @[arg1] = count(); }", "{ @[arg1] = max((int64)arg1); }", SCALAR):
        maps = make(marked(body))
        if body == SCALAR:
            maps.assign("@", (1,), 5)
        else:
            maps.hit("@", (1,))
        maps.maps.note_reset("@", maps.reset("@", cleared=False), False)
        maps.settle()
        maps.maps.tidy()
        assert list(maps.items("@")) == [(1,)]
        maps.maps.delete("@", (1,))
        assert maps.items("@") == {}


def test_user_space_clears_what_probes_clear(make: Make, marked_form: tuple[str, object]) -> None:
    body, expected = marked_form
    maps = make(marked(body, CLEARED))
    hit_twice(maps)
    assert maps.taken("@") == {(1,): expected}
    hit_twice(maps)
    maps.maps.note_reset("@", maps.reset("@"), True)
    hit_twice(maps, (2,))
    assert maps.taken("@") == {(2,): expected}
    maps.settle()
    maps.maps.tidy()
    assert maps.items("@") == {} == maps.map("@").elements


def test_user_spaces_part_is_cleared_and_zeroed_by_probes_too(make: Make) -> None:
    maps = make(marked("{ @[arg1] = count(); }"))
    maps.maps.aggregate("@", (1,), "count", 0)
    maps.hit("@", (1,))
    maps.reset("@", cleared=False)
    assert maps.items("@") == {(1,): 0}
    maps.maps.aggregate("@", (1,), "count", 0)
    mark = maps.mark("@")
    maps.reset("@")
    maps.maps.aggregate("@", (2,), "count", 0)
    assert maps.items("@") == {(2,): 1}
    # User space has cleared its part already: a print of before shows what the kernel has.
    assert maps.printed("@", mark) == {(1,): 0}


def test_one_reading_serves_the_prints_of_many_marks(make: Make) -> None:
    maps = make(marked("{ @[arg1] = count(); }"))
    marks = []
    for number in range(5):
        maps.hit("@", (number,))
        marks.append(maps.reset("@"))
    maps.fake.commands.clear()
    assert [maps.printed("@", mark) for mark in marks] == [{(number,): 1} for number in range(5)]
    assert maps.fake.commands.count(LOOKUP_BATCH) == 1


def test_scalars_that_probes_clear(make: Make) -> None:
    maps = make(marked(SCALAR, CLEARED))
    maps.assign("@", (1,), 5)
    mark = maps.reset("@")
    maps.assign("@", (2,), 6)
    assert maps.printed("@", mark) == {(1,): 5}
    maps.maps.note_reset("@", mark, True)
    assert maps.items("@") == {(2,): 6}
    maps.maps.add("@", (2,), 1)
    maps.maps.set("@", (3,), 9)
    maps.maps.note_reset("@", maps.reset("@", cleared=False), False)
    assert maps.items("@") == {(2,): 0, (3,): 0}
    maps.assign("@", (3,), 8)
    maps.settle()
    maps.maps.tidy()
    assert maps.items("@") == {(2,): 0, (3,): 8}
    assert len(maps.map("@").elements) == 1
    assert maps.taken("@") == {(2,): 0, (3,): 8}
    assert maps.items("@") == {}


def test_elements_are_given_back_in_one_call(make: Make) -> None:
    maps = make(marked("{ @[arg1] = count(); }"))
    for number in range(50):
        maps.hit("@", (number,))
    maps.maps.note_reset("@", maps.reset("@"), True)
    maps.settle()
    maps.fake.commands.clear()
    maps.maps.tidy()
    assert maps.fake.commands.count(DELETE_BATCH) == 1
    assert LOOKUP not in maps.fake.commands


def test_what_came_late_is_counted_once_over_many_prints(make: Make) -> None:
    maps = make(marked("{ @[arg1] = count(); }"))
    maps.hit("@", (1,))
    (raw,) = maps.map("@").elements
    shown = []
    for late in range(4):
        mark = maps.reset("@")
        shown.append(maps.printed("@", mark))
        maps.maps.note_reset("@", mark, True)
        maps.map("@").put(raw, [2 + late])
        assert maps.items("@") == {(1,): 1}
        maps.hit("@", (1,))
        assert maps.items("@") == {(1,): 2}
    assert shown == [{(1,): 1}, {(1,): 2}, {(1,): 2}, {(1,): 2}]


def test_an_assignment_while_an_empty_map_is_cleared_is_carried_over(make: Make) -> None:
    maps = make(probe(SCALAR) + CLEARED)
    maps.fake.on_next(LOOKUP_BATCH, lambda: maps.assign("@", (1,), 4), after=True)
    assert maps.taken("@") == {}
    assert maps.items("@") == {(1,): 4}


def test_a_print_of_scalars_does_not_show_what_user_space_cleared_before(make: Make) -> None:
    maps = make(marked(SCALAR, CLEARED))
    maps.assign("@", (1,), 5)
    assert maps.taken("@") == {(1,): 5}
    maps.assign("@", (2,), 6)
    mark = maps.reset("@")
    assert maps.printed("@", mark) == {(2,): 6}


def test_a_key_of_two_generations_is_one_value(make: Make, form: tuple[str, object]) -> None:
    body, expected = form
    maps = make(probe(body) + CLEARED)
    generation = maps.tables["@"].generation
    if generation is None:
        return  # an array: its elements have no generation
    maps.maps.clear("@")
    maps.words[5 + generation] -= 1
    maps.hit("@", (1,), 5)  # a program that had read the number before
    maps.words[5 + generation] += 1
    maps.hit("@", (1,), 9)
    assert maps.items("@") == {(1,): expected}


def test_a_kernel_without_batches_is_read_key_by_key(make: Make, form: tuple[str, object]) -> None:
    body, expected = form
    maps = make(probe(body) + CLEARED)
    maps.fake.lacking = frozenset({LOOKUP_BATCH, DELETE_BATCH})
    for key in range(1, 4):
        hit_twice(maps, (key,))
    assert maps.taken("@") == {(key,): expected for key in range(1, 4)}


def test_a_scalar_that_is_assigned_anew_keeps_its_length(make: Make) -> None:
    maps = make(probe("{ @x[arg1] = arg1; if (len(@x) > 9) { exit(); } }"))
    maps.maps.set("@x", (1,), 5)
    maps.maps.set("@x", (1,), 6)
    assert (maps.length("@x"), maps.items("@x")) == (1, {(1,): 6})


def test_a_late_assignment_to_what_a_probe_has_cleared_is_of_the_past(make: Make) -> None:
    maps = make(marked(SCALAR, CLEARED))
    maps.assign("@", (1,), 5)
    assert maps.taken("@") == {(1,): 5}
    maps.maps.note_reset("@", maps.reset("@"), True)
    (raw,) = maps.map("@").elements
    maps.map("@").put(raw, [6])
    assert maps.items("@") == {}
    maps.settle()
    maps.maps.tidy()
    assert maps.map("@").elements == {}


@pytest.mark.parametrize("body", [body for (where, kind), (body, _) in FORMS.items() if where is ARRAY])
def test_the_hits_of_an_array_are_all_there_were_whatever_was_cleared(make: Make, body: str) -> None:
    maps = make(probe(body) + CLEARED)
    hit_twice(maps)
    maps.taken("@")
    hit_twice(maps, (2,))
    assert maps.maps.hits(maps.tables["@"]) == 4


def test_each_key_is_read_once_where_a_handler_deletes_all(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = make(probe("{ @[arg1] = count(); }"))
    for number in range(50):
        maps.hit("@", (number,))
    reads: list[Raw] = []
    place = KernelMap._place

    def counting(self: KernelMap[int], raw: Raw) -> tuple[Key, int]:
        reads.append(raw)
        return place(self, raw)

    maps.maps.begin_handler()
    keys = [*maps.items("@")]
    monkeypatch.setattr(KernelMap, "_place", counting)
    for each in keys:
        maps.maps.delete("@", each)
    assert len(reads) == len(keys) == 50
    assert maps.items("@") == {}
    maps.maps.end_handler()
