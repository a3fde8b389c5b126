"""Ours beside the standard one: the same classes, the same answers."""

from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
import threading
import typing
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


def test_a_class_is_compiled_when_some_objects_were_made() -> None:
    for name, args in (("Base", (1,)), ("Derived", (1, (), "x", [4]))):
        made = classes(ours)[name]
        assert made.__init__.__name__ == "_first_init"
        assert len({str(made(*args)) for _ in range(20)}) == 1
        assert made.__init__.__name__ == "__init__"


def tuples(kind: Any) -> Any:
    class Row(kind.NamedTuple):  # type: ignore[misc]
        """A row."""

        key: int
        text: str = "none"

        @property
        def both(self) -> str:
            return f"{self.key} {self.text}"

    return Row


def test_a_named_tuple_is_as_the_standard_one() -> None:
    answers = []
    for row in (tuples(typing), tuples(ours)):
        made, other = row(1), row(text="two", key=2)
        key, text = made
        failed = []
        wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((), {}), ((1, "2", 3), {}), ((1,), {"other": 2})]
        for args, named in wrong:
            with pytest.raises(TypeError) as caught:
                row(*args, **named)
            failed.append(str(caught.value))
        with pytest.raises(ValueError, match="unexpected field names"):
            made._replace(third=3)
        with pytest.raises(AttributeError):
            made.key = 2
        with pytest.raises(AttributeError):
            made.third = 2
        answers.append((
            repr(made), made.both, made == (1, "none"), made < other, hash(made), key, text, made._replace(key=3),
            other._asdict(), row._make((4, "x")), row._fields, row.__match_args__, row._field_defaults, row.__doc__,
            isinstance(made, tuple), row.__mro__[1:], copy.copy(made), row.__module__, row.__qualname__, failed,
            made[0], [*other], typing.get_type_hints(row) == {"key": int, "text": str},
        ))  # fmt: skip
    assert answers[0] == answers[1]
