from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.elfwriter import DATA_ADDRESS, DATA_OFFSET, TEXT_ADDRESS, ElfWriter, usdt_note
from tracer.errors import Diagnostic, Source
from tracer.kinds.site import Target, places_among
from tracer.lang.syntax.parser import parse
from tracer.resolve.sites.expand import expand

FOLDED = "hits of one and two cannot be told apart: the linker made them one place"
ALIASES = "hits of f and g cannot be told apart: they are names of one place"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which two functions and two probes with semaphores are one place."""
    notes = usdt_note("p", "one", semaphore=DATA_ADDRESS + 4) + usdt_note("p", "two", semaphore=DATA_ADDRESS + 6)
    symbols = [("f", TEXT_ADDRESS, 2, 0x12), ("g", TEXT_ADDRESS, 2, 0x12), ("h", TEXT_ADDRESS + 2, 2, 0x12)]
    ElfWriter(text=b"\x90\xc3\x90\xc3", notes=notes, symbols=symbols).write(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def expanded(text: str) -> tuple[list[list[int | None]], list[str]]:
    """The semaphores of the sites of each clause, and what is warned of: the text and its attach point."""
    warnings: list[Diagnostic] = []
    found = expand(parse(Source(text)), Target(), warnings=warnings)
    said = [f"{each.message} @ {text[each.span.start : each.span.end]}" for each in warnings]
    return [[site.semaphore for site in places_among(found[index])] for index in sorted(found)], said


@pytest.mark.parametrize(
    ("text", "semaphores", "said"),
    [
        ("uprobe:./a:f { @++; } usdt:./a:p:one { @a++; }", [[4], [4]], [f"{FOLDED} @ usdt:./a:p:one"]),
        ("usdt:./a:p:one { @a++; } uprobe:./a:0x1000 { @++; }", [[4], [4]], [f"{FOLDED} @ usdt:./a:p:one"]),
        ("usdt:./a:p:two { @a++; } uretprobe:./a:f { @++; }", [[6], [6]], [f"{FOLDED} @ usdt:./a:p:two"]),
        ("usdt:./a:p:one { @++; } usdt:./a:p:two { @a++; }", [[4], [4]], [f"{FOLDED} @ usdt:./a:p:one"]),
        ("usdt:./a:* { @++; }", [[4, 4]], [f"{FOLDED} @ usdt:./a:*"]),
        ("uprobe:./a:f { @++; } uprobe:./a:g { @a++; }", [[None], [None]], [f"{ALIASES} @ uprobe:./a:g"]),
        ("uprobe:./a:f, uprobe:./a:g { @++; }", [[None, None]], [f"{ALIASES} @ uprobe:./a:g"]),
        ("uprobe:./a:?, uprobe:./a:g { @++; }", [[None, None, None]], [f"{ALIASES} @ uprobe:./a:g"]),
        ("uprobe:./a:? { @++; } uprobe:./a:g { @a++; }", [[None, None], [None]], []),
        ("uprobe:./a:f { @++; } uprobe:./a:f { @a++; }", [[None], [None]], []),
        ("uprobe:./a:f { @++; } uprobe:./a:h { @a++; }", [[None], [None]], []),
    ],
)  # fmt: skip
def test_sites_of_one_place_have_one_semaphore_and_their_hits_are_said_to_be_one(
    text: str, semaphores: list[list[int | None]], said: list[str], here: Path
) -> None:
    offsets = [[None if each is None else DATA_OFFSET + each for each in clause] for clause in semaphores]
    assert expanded(text) == (offsets, said)


FOLDED_C = """
#include <sys/sdt.h>
__attribute__((noinline)) int one(int x) { STAP_PROBE1(p, one, x); __asm__ volatile(""); return x * 7; }
__attribute__((noinline)) int two(int x) { STAP_PROBE1(p, two, x); __asm__ volatile(""); return x * 7; }
int main(int c, char **v) { return one(c) + two(c); }
"""


def test_functions_that_the_linker_folds_are_one_place(here: Path) -> None:
    (here / "folded.c").write_text(FOLDED_C)
    fold = ["-ffunction-sections", "-fuse-ld=lld", "-Wl,--icf=all"]
    subprocess.run(["clang", "-O1", *fold, "folded.c", "-o", "folded"], check=True)
    why = "the linker made them one place, or one is an alias"
    assert expanded("uprobe:./folded:one { @ = count(); } uprobe:./folded:two { @a = count(); }") == (
        [[None], [None]],
        [f"hits of one and two cannot be told apart: {why} @ uprobe:./folded:two"],
    )
    assert expanded("usdt:./folded:p:two { @ = count(); }") == ([[None]], [f"{FOLDED} @ usdt:./folded:p:two"])
