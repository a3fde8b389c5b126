"""How `tracer list -v` shows the variables at a place, and the line of a source file that a debugger's habit names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.targets.build import build
from tests.unit.resolve.variables.test_places import TEXT, number
from tracer.kinds.site import Target
from tracer.resolve.binary import Binary
from tracer.resolve.listing import list_probes
from tracer.resolve.sites.site_texts import SiteTexts
from tracer.resolve.variables.words import VariableTexts


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def texts(path: Path) -> VariableTexts:
    binary = Binary(str(path))
    return VariableTexts(str(path), binary.identity, binary.arch)


def test_a_file_and_a_line_are_a_place_without_the_kind_of_probe() -> None:
    path, line = build("variables-O0"), number("inner")
    (listed,) = list_probes(f"{path}:variables.c:{line}", Target())
    assert (listed.probe, listed.kind) == (f"uprobe:{path}:variables.c:{line}", "uprobe")


def test_each_variable_is_in_words_and_a_shadowed_one_too() -> None:
    path = build("variables-O0")
    (listed,) = list_probes(f"{path}:variables.c:{number('inner')}", Target())
    found = texts(path)
    shown = list(found.lines(listed.kind, listed.probe, listed.sites[0].address))
    assert [line.partition(":")[0] for line in shown] == ["total", "k", "i", "it", "n", "c", "total", "calls", "rate"]
    assert shown[0].startswith("total: int at rbp-")
    assert shown[6].endswith("; an inner one of this name hides it")
    assert shown[8] == "rate: double, not yet there here"
    found.close()
    again = texts(path)  # from the cache
    assert list(again.lines(listed.kind, listed.probe, listed.sites[0].address)) == shown


def test_what_is_in_a_register_is_named_as_the_assembler_does_and_callers_variables_have_their_function() -> None:
    path = build("variables-O2")
    (listed,) = list_probes(f"uprobe:{path}:variables.c:{number('sell')}", Target())
    lines = [list(texts(path).lines(listed.kind, listed.probe, each.address)) for each in listed.sites]
    assert all(any(line.startswith("count: int in e") for line in each) for each in lines)
    assert all("n (of price): int in esi" in each for each in lines)


def test_at_an_entry_are_only_args() -> None:
    path = build("variables-O0")
    (listed,) = list_probes(f"uprobe:{path}:price", Target())
    assert list(texts(path).lines(listed.kind, listed.probe, listed.sites[0].address)) == []


def test_the_line_is_shown_with_its_neighbours() -> None:
    path, line = build("variables-O0"), number("inner")
    (listed,) = list_probes(f"{path}:variables.c:{line}", Target())
    shown = list(SiteTexts(str(path)).source(line, listed.sites[0].address))
    assert shown == [
        f"{'>' if at == line else ' '} {at:>5}  {TEXT[at - 1]}".rstrip() for at in range(line - 2, line + 3)
    ]
