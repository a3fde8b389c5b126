"""Ours beside the standard one: the same classes, the same answers."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tracer import dataclass as ours

ROOT = Path(__file__).parents[2]


def classes(kind: Any) -> dict[str, Any]:
    @kind.dataclass(frozen=True, slots=True)
    class Base:
        first: int
        second: tuple[int, ...] = (1, 2)

        def total(self) -> int:
            return self.first + sum(self.second)

    @kind.dataclass(frozen=True, slots=True)
    class Derived(Base):
        third: str = "three"
        fourth: list[int] = kind.field(default_factory=list)

    @kind.dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @kind.dataclass(slots=True)
    class Changing:
        items: dict[str, int] = kind.field(default_factory=dict)
        later: int = kind.field(init=False)
        count: int = kind.field(default=7)

    @kind.dataclass(frozen=True, slots=True)
    class Shown:
        value: int

        def __str__(self) -> str:
            return f"<{self.value}>"

        def __repr__(self) -> str:
            return "shown"

    return {each.__name__: each for each in (Base, Derived, Empty, Changing, Shown)}


STANDARD, OURS = classes(dataclasses), classes(ours)

MADE: dict[str, tuple[str, tuple[object, ...], dict[str, object]]] = {
    "positions": ("Base", (1, (2,)), {}),
    "a default": ("Base", (1,), {}),
    "names": ("Base", (), {"second": (), "first": 3}),
    "inherited fields first": ("Derived", (1, (), "x", [4]), {}),
    "a made default": ("Derived", (1,), {}),
    "no fields": ("Empty", (), {}),
    "a field that is set later": ("Changing", ({"a": 1}, 2), {}),
    "its own text": ("Shown", (1,), {}),
}


@pytest.mark.parametrize("case", MADE)
def test_an_object_has_the_same_fields_and_text_as_a_standard_one(case: str) -> None:
    name, args, named = MADE[case]
    theirs, made = STANDARD[name](*args, **named), OURS[name](*args, **named)
    if name == "Changing":
        theirs.later = made.later = 5
    assert repr(made) == repr(theirs)
    assert str(made) == str(theirs)
    assert made.__match_args__ == theirs.__match_args__
    assert dataclasses.asdict(made) == dataclasses.asdict(theirs)
    assert [(each.name, each.init) for each in dataclasses.fields(made)] == [
        (each.name, each.init) for each in dataclasses.fields(theirs)
    ]
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize(
    ("name", "args", "named"),
    [("Base", (), {}), ("Base", (1, 2, 3), {}), ("Base", (1,), {"fifth": 1}), ("Changing", (), {"later": 1})],
)
def test_what_a_standard_class_does_not_take_ours_does_not_take(
    name: str, args: tuple[object, ...], named: dict[str, object]
) -> None:
    for each in (STANDARD, OURS):
        with pytest.raises(TypeError, match="__init__"):
            each[name](*args, **named)


def test_equality_is_that_of_class_and_fields() -> None:
    for each in (STANDARD, OURS):
        base, derived, empty = each["Base"], each["Derived"], each["Empty"]
        assert base(1) == base(1, (1, 2))
        assert hash(base(1)) == hash(base(1, (1, 2)))
        assert base(1) != base(2)
        assert base(1) != derived(1)
        assert base(1) != 1
        assert empty() == empty()
        assert hash(empty()) == hash(empty())
        assert len({base(1), base(1), base(2)}) == 2
        with pytest.raises(TypeError, match="unhashable"):
            hash(each["Changing"]())


def test_a_frozen_object_stays_as_it_is() -> None:
    for each in (STANDARD, OURS):
        made = each["Derived"](1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.first = 2
        with pytest.raises(dataclasses.FrozenInstanceError):
            del made.third
        with pytest.raises((AttributeError, TypeError)):
            made.other = 2
        assert (made.first, made.total()) == (1, 4)


def test_made_defaults_are_not_shared() -> None:
    first, second = OURS["Changing"](), OURS["Changing"]()
    first.items["a"] = 1
    assert (first.items, second.items, first.count) == ({"a": 1}, {}, 7)


def test_replacing_a_field_leaves_the_others_and_the_object() -> None:
    made = OURS["Derived"](1, (), "x")
    for replace in (ours.replace, dataclasses.replace):
        assert replace(made, third="y") == OURS["Derived"](1, (), "y")
    assert made.third == "x"


def test_pytest_shows_which_fields_differ(tmp_path: Path) -> None:
    test = tmp_path / "test_spans.py"
    test.write_text(
        "from tracer.errors import Span\n"
        "def test_one() -> None:\n    assert Span(1, 2) == Span(1, 3)\n"
        "def test_many() -> None:\n    assert [Span(1, 2)] == [Span(1, 3)]\n"
    )
    command = [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", "-c", "/dev/null", str(test)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "Differing attributes:\nE         ['end']" in done.stdout
    assert "-     Span(start=1, end=3)," in done.stdout
    assert "2 failed" in done.stdout


def test_patterns_match_by_position() -> None:
    from tracer.errors import Span

    match Span(1, 2):
        case Span(start, end):
            assert (start, end) == (1, 2)


def test_what_would_be_left_out_is_refused() -> None:
    with pytest.raises(AssertionError, match="nobody would call it"):

        @ours.dataclass(slots=True)
        class Checked:
            value: int

            def __post_init__(self) -> None:
                self.value += 1


def test_objects_made_first_by_many_threads_at_once_are_whole() -> None:
    for _ in range(50):
        made = classes(ours)["Derived"]
        start = threading.Barrier(8)

        def first(made: Any = made, start: threading.Barrier = start) -> object:
            start.wait()
            return made(1, (), "x").third

        with ThreadPoolExecutor(8) as pool:
            assert [each.result() for each in [pool.submit(first) for _ in range(8)]] == ["x"] * 8


def test_no_module_of_the_package_uses_the_standard_one_at_import() -> None:
    users = [
        path.name
        for path in (ROOT / "tracer").rglob("*.py")
        if any(line.startswith(("import dataclasses", "from dataclasses")) for line in path.read_text().splitlines())
    ]
    assert users == []


def test_a_class_is_compiled_when_the_first_object_is_made() -> None:
    module = importlib.import_module("tracer.errors")
    assert module.Span(1, 2) == module.Span(1, 2)
    assert module.Span.__init__.__name__ == "__init__"
    assert classes(ours)["Base"].__init__.__name__ == "_first_init"
