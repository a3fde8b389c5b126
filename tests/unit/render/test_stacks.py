"""Maps of stacks in the formats of `--stacks`, with names that a traced program may have chosen to do harm."""

from __future__ import annotations

import io
from typing import get_args

import pytest

from tracer.choices import STACKS
from tracer.cli.options import StackFormat
from tracer.errors import Source
from tracer.host.maps import Mapping
from tracer.lang.analyse import analyse
from tracer.lang.syntax.parser import parse
from tracer.lang.typed import Program
from tracer.lang.types import Stack, Value
from tracer.render.stacks import document_of, format_of
from tracer.render.stacks.collect import is_of_stacks
from tracer.render.stacks.profiles import kind_of, printable
from tracer.render.stacks.renderer import DocumentRenderer, FoldedRenderer
from tracer.results.store import LocalMaps
from tracer.results.values import Key

NAMES = {
    0x1000: "main", 0x1010: "sell", 0x7000: "malloc", 0x7010: "std::map<int; char>\n::at", 0x9000: "render.py:draw:12",
    0x1020: "operator+", 0x1030: "", 0x1040: "sell", 0x1050: "main",
}  # fmt: skip
MAPPINGS = [
    Mapping(0x1000, 0x2000, "r-xp", 0x4000, ("fe:01", 7), "/bin/shop", False),
    Mapping(0x7000, 0x8000, "r-xp", 0, ("fe:01", 8), "/usr/lib/libc.so.6", False),
    Mapping(0x9000, 0xA000, "r-xp", 0, None, "", False),
]


class Symbols:
    """A shop, its library, and memory without a file."""

    def symbol(self, pid: int, address: int) -> str:
        raise AssertionError("unused")

    def frame(self, pid: int, address: int, returned: bool = False) -> str:
        return f"{NAMES[address]}+{address & 0xF}" if address in NAMES else f"{address:#x}"

    def interrupts(self, pid: int, address: int) -> bool:
        return False

    def sources(self, pid: int, address: int, returned: bool = False) -> list[tuple[str, str]]:
        return [("price", "shop.c:3"), ("order", "shop.c:9"), ("main", "shop.c:20")] if address == 0x1050 else []

    def path(self, pid: int, address: int) -> str | None:
        raise AssertionError("unused")

    def build_id(self, pid: int, address: int) -> tuple[str, int] | None:
        return ("c0ffee", address - 0x1000 + 0x4000) if address < 0x2000 else None

    def mapping(self, pid: int, address: int) -> Mapping | None:
        return next((each for each in MAPPINGS if each.start <= address < each.end), None)


def program(text: str) -> Program:
    return analyse(parse(Source(text)), {})


def of(text: str, *entries: tuple[str, Key, Value], kind: type[FoldedRenderer] = FoldedRenderer) -> FoldedRenderer:
    """A renderer that was given the maps at the end of a run."""
    made = program(text)
    store = LocalMaps(made)
    for name, key, value in entries:
        if made.maps[name].kind == "scalar":
            store.set(name, key, value)
        else:
            for _ in range(int(value) if made.maps[name].kind == "count" else 1):  # type: ignore[arg-type]
                store.aggregate(name, key, made.maps[name].kind, value)  # type: ignore[arg-type]
    renderer = kind(made, Symbols(), io.BytesIO())
    out = io.BytesIO()
    renderer.write = out.write
    renderer.maps([store.snapshot(name) for name in sorted(made.maps)])
    renderer.printed = out.getvalue()  # type: ignore[attr-defined]
    return renderer


def folded(text: str, *entries: tuple[str, Key, Value]) -> bytes:
    printed: bytes = of(text, *entries).printed  # type: ignore[attr-defined]
    return printed


PROBE = "uprobe:/bin/true:main"


def stack(*innermost_first: int) -> Stack:
    return Stack(7, innermost_first)


def test_a_map_by_stack_is_a_line_for_each_with_the_outermost_frame_first() -> None:
    found = folded(
        "BEGIN { @[comm, ustack] = count(); @n = count(); }",
        ("@", (b"shop", stack(0x7000, 0x1010, 0x1000)), 3), ("@", (b"till", stack(0x7000)), 1), ("@n", (), 4),
    )  # fmt: skip
    assert found == b"till;malloc 1\nshop;main;sell;malloc 3\n@n: 4\n"


def test_inlined_functions_are_frames_inside_the_one_that_holds_them() -> None:
    found = folded("BEGIN { @[ustack] = count(); }", ("@", (stack(0x7000, 0x1050, 0x1000),), 2))
    assert found == b"main;main;order;price;malloc 2\n"


def test_sums_integers_and_stacks_as_values_are_taken_and_what_does_not_add_up_is_printed_as_ever() -> None:
    one, other = (stack(0x7000, 0x1000),), (stack(0x1000),)
    assert folded("BEGIN { @[ustack] = sum(1); }", ("@", one, 40), ("@", other, 2)) == b"main 2\nmain;malloc 40\n"
    assert folded("BEGIN { @[ustack] += 1; }", ("@", one, -5)) == b"main;malloc -5\n"
    assert folded("BEGIN { @[tid] = ustack; }", ("@", (8,), one[0]), ("@", (9,), one[0])) == (
        b"8;main;malloc 1\n9;main;malloc 1\n"
    )
    assert folded("BEGIN { @[ustack] = avg(1); }", ("@", one, 5)) == (
        b"@[\n        malloc+0\n        main+0\n]: 5\n"
    )


def test_lines_of_several_maps_begin_with_their_map() -> None:
    found = folded(
        "BEGIN { @a[ustack] = count(); @b[ustack, 7] = count(); }",
        ("@a", (stack(0x1000),), 1), ("@b", (stack(0x1000), 7), 2),
    )  # fmt: skip
    assert found == b"@a;main 1\n@b;7;main 2\n"


def test_stacks_of_the_same_names_are_one_line() -> None:
    found = folded(
        "BEGIN { @[ustack] = count(); }",
        ("@", (stack(0x1010, 0x1000),), 2), ("@", (stack(0x1040, 0x1000),), 3), ("@", (stack(0x1000),), 4),
    )  # fmt: skip
    assert found == b"main 4\nmain;sell 5\n"


def test_hostile_names_stay_on_their_line_and_in_their_frame() -> None:
    found = folded(
        "BEGIN { @[comm, ustack] = count(); }",
        ("@", (b"a;b\n\x1b[31m \xff\xe2\x80\xae", stack(0x7010, 0x1020, 0x1030)), 1), ("@", (b"", stack()), 1),
    )  # fmt: skip
    assert found == (
        b"-;[no stack] 1\n"
        b"a:b\\n\\x1b[31m \\xff\\u202e;-;operator+;std::map<int: char>\\n::at 1\n"
    )  # fmt: skip


def test_addresses_without_a_name_are_places_in_their_file() -> None:
    assert folded("BEGIN { @[ustack] = count(); }", ("@", (stack(0x7123, 0x1234, 0x5_0000),), 1)) == (
        b"0x50000;[shop+0x4234];[libc.so.6+0x123] 1\n"
    )
    one = ("@", (stack(0x7000, 0x1000),), 1)
    assert folded("BEGIN { @[ustack(raw)] = count(); }", one) == b"0x1000;0x7000 1\n"
    assert folded("BEGIN { @[ustack(build_id)] = count(); }", one) == b"c0ffee+0x4000;malloc 1\n"


def test_a_document_has_a_profile_for_each_print_of_a_map_of_stacks() -> None:
    made = of(
        "BEGIN { @[pid, comm, ustack] = count(); @n = count(); }",
        ("@", (1, b"shop", stack(0x9000, 0x7000, 0x1000)), 3), ("@n", (), 4), kind=DocumentRenderer,
    )  # fmt: skip
    assert made.printed == b"@n: 4\n"  # type: ignore[attr-defined]
    assert isinstance(made, DocumentRenderer)
    (profile,) = made.profiles
    assert (profile.name, profile.unit, profile.keys) == ("@", "count", ("pid", "comm"))
    (sample,) = profile.samples
    assert sample.labels == ("1", "shop") and sample.value == 3
    assert [(each.name, each.kind, each.address) for each in sample.frames] == [
        ("main", "user", 0xFFF), ("malloc", "library", 0x6FFF), ("render.py:draw:12", "python", 0x9000),
    ]  # fmt: skip
    made.take(profile)
    assert [each.name for each in made.profiles] == ["@", "@ (2)"]


def test_the_kind_of_a_frame_is_told_by_its_file() -> None:
    assert [
        kind_of("f", path)
        for path in ("/bin/ls", "/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "[vdso]", "", "/memfd:jit", None)
    ] == ["user", "library", "library", "kernel", "jit", "jit", "other"]
    assert kind_of("a.py:f:3", "/usr/bin/python3") == "python"
    assert kind_of("<frozen importlib._bootstrap>:_find_and_load", None) == "python"
    assert kind_of("<string>:<module>", None) == "python"
    assert kind_of("<lambda>", None) == "other"


def test_what_is_no_stack_is_no_map_of_stacks() -> None:
    made = program("BEGIN { @a[ustack] = count(); @b[pid] = count(); @c[ustack] = hist(1); @d = ustack; }").maps
    assert [name for name in made if is_of_stacks(made[name])] == ["@a", "@d"]


def test_printable_text_keeps_its_letters() -> None:
    assert printable("für;\u202e\udcff\n") == "für;\\u202e\\xff\\n"


def test_every_format_is_an_option_and_a_module() -> None:
    assert list(get_args(StackFormat)) == list(STACKS)
    for name, endings in STACKS.items():
        assert callable(document_of(name))
        assert all(format_of(f"out{ending}") == name for ending in endings)
    assert format_of("out.txt") is None


@pytest.mark.parametrize("name", STACKS)
def test_a_document_of_nothing_is_one(name: str) -> None:
    from tracer.render.stacks.profiles import Page

    assert isinstance(document_of(name)([], Page()), bytes)
