"""`tracer list --verify`: our readers beside pyelftools. What differs is said, what cannot be compared is said too."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.cli import tracer
from tracer.cli.app import main
from tracer.resolve.elf import file as elf_file
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import Segment, string_at
from tracer.resolve.unwind import rules
from tracer.verify import headers, known, lines, parameters, verify
from tracer.verify.findings import MOST_SHOWN, Findings

SOURCE = r"""
#include <sys/sdt.h>
struct pair { int a; long b; };
typedef unsigned long size;
__attribute__((noinline)) long add(struct pair *p, const char *t, size n)
{
    DTRACE_PROBE2(shop, order, p->a, t);
    return p->a + n + t[0];
}
int main(int argc, char **argv) { struct pair p = {argc, 2}; return add(&p, argv[0], 3); }
"""

# Of a bare Debian 12, and of most others.
EVERYWHERE = (
    "/usr/bin/bash", "/usr/bin/cat", "/usr/bin/chmod", "/usr/bin/cp", "/usr/bin/dash", "/usr/bin/date", "/usr/bin/dd",
    "/usr/bin/df", "/usr/bin/diff", "/usr/bin/dpkg", "/usr/bin/du", "/usr/bin/env", "/usr/bin/find", "/usr/bin/gzip",
    "/usr/bin/grep", "/usr/bin/head", "/usr/bin/id", "/usr/bin/ln", "/usr/bin/ls", "/usr/bin/mkdir", "/usr/bin/mount",
    "/usr/bin/mv", "/usr/bin/od", "/usr/bin/perl", "/usr/bin/python3", "/usr/bin/sed", "/usr/bin/sort", "/usr/bin/stat",
    "/usr/bin/tail", "/usr/bin/tar", "/usr/bin/tr", "/usr/bin/wc", "libc.so.6", "libm.so.6", "libcrypt.so.1",
    "libselinux.so.1", "libz.so.1", "liblzma.so.5", "libgcc_s.so.1", "ld-linux-x86-64.so.2",
)  # fmt: skip
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.c").write_text(SOURCE)
    command = ["gcc", "-g", "-gdwarf-5", "-O1", "shop.c", "-o", "shop"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "shop"


def part(path: Path | str, name: str, limit_s: float = 5.0) -> Any:
    return verify.compared(str(path), name, verify._parts()[name], limit_s)


def test_a_file_of_which_both_read_the_same(shop: Path) -> None:
    done = tracer("list", "--verify", str(shop))
    assert (done.status, done.said) == (0, "")
    text = done.out.decode()
    with Elf(str(shop)) as elf:
        sections, segments = len(elf.sections), len(elf.segments)
    begin, _, end = text.partition(f"{shop}: nothing differs in {sections} sections, {segments} segments, ")
    assert begin == "" and end.endswith(" unwind rules, 2 functions with their parameters\n")
    counts = {each.name: each.compared for each in verify.verify(str(shop))}
    assert min(counts.values()) > 1 and counts["rows of the line table"] > 10


def wrong(function: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda *given: change(function(*given))


MISTAKES: dict[str, tuple[str, object, str, Callable[[Any], Any], str]] = {
    "a section's name": (
        "sections", elf_file, "string_at", lambda name: name + "x", "sections: section 0: ours ('x', ",
    ),
    "a segment's size": (
        "segments", elf_file, "Segment", lambda each: Segment(each.type, each.flags, 1, 2, 3),
        "segments: segment 0: ours (6, 4, 1, 2, 3), pyelftools (6, 4, 64, 64, ",
    ),
    "a note's end": (
        "notes", headers, "notes", lambda made: list(made)[:-1],
        "notes: note 0 of .note.gnu.property: ours None, pyelftools ('GNU', 5, ",
    ),
    "a USDT probe": (
        "notes", headers, "read_notes", lambda made: (), "notes: the number of USDT probes: ours 0, pyelftools 1",
    ),
    "a symbol table": (
        "symbols", headers, "read_table", lambda table: type(table)(b"", b"\0"),
        "symbols: symbol ",
    ),
    "a line": (
        "rows of the line table", lines, "decode", lambda made: [[each[0]._replace(line=1)] for each in made],
        "rows of the line table: the line program at 0x0, row 0: ours (",
    ),
    "the CFA": (
        "unwind rules", rules, "rule_at", lambda rule: None, "unwind rules: the rule at 0x",
    ),
    "a type": (
        "functions with their parameters", parameters.types, "spelling", lambda text: f"{text}!",  # type: ignore[attr-defined]
        "functions with their parameters: the function at 0x",
    ),
    "a place": (
        "functions with their parameters", parameters, "location_at", lambda found: b"\0",
        "functions with their parameters: the function at 0x",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_our_reader_is_a_line(shop: Path, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, module, function, change, said = MISTAKES[mistake]
    assert part(shop, name).differences == ()
    monkeypatch.setattr(module, function, wrong(getattr(module, function), change))
    found = part(shop, name)
    assert found.differences[0].startswith(said)
    assert (found.reasons, found.cut) == ((), "")


def test_a_difference_ends_it_with_status_1(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = string_at
    monkeypatch.setattr(elf_file, "string_at", lambda table, at: own(table, at).replace(".bss", ".sbs"))
    assert main(["list", "--verify", str(shop)]) == 1
    told = capsys.readouterr()
    (line,) = told.out.splitlines()
    assert line.startswith("sections: section ") and "ours ('.sbs', 8, 3, " in line and "pyelftools ('.bss', 8," in line
    assert told.err == ""


def held_up(shop: Path, folder: Path) -> Path:
    """A line program whose header claims 2**60 directories of no fields, at which pyelftools reads for ever."""
    with Elf(str(shop)) as elf:
        section = elf.section(".debug_line")
        assert section is not None
        data = bytearray(shop.read_bytes())
    fields = section.offset + 12
    table = fields + 6 + data[fields + 5] - 1
    data[table : table + 10] = b"\0" + b"\x80" * 8 + b"\x10"
    (folder / "held").write_bytes(data)
    return folder / "held"


def test_a_file_that_holds_pyelftools_up_costs_its_part_alone_and_a_bounded_time(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_BEYOND_S", 0.5)
    before = set(psutil.Process().children(recursive=True))  # of other tests of this process
    start = time.monotonic()
    found = {each.name: each for each in verify.verify(str(held_up(shop, tmp_path)), 1.0)}
    assert time.monotonic() - start < 15
    assert found["rows of the line table"].cut == "pyelftools did not come back in time and was ended"
    assert found["rows of the line table"].compared == 0
    assert {name: each.cut for name, each in found.items() if name != "rows of the line table"} == {
        "sections": "", "segments": "", "notes": "", "symbols": "", "unwind rules": "",
        "functions with their parameters": "",
    }  # fmt: skip
    assert set(psutil.Process().children(recursive=True)) <= before


def test_what_time_was_not_enough_for_is_said() -> None:
    found = part("/usr/bin/python3", "unwind rules", 0.0)
    assert (found.cut, found.compared, found.differences) == ("its time ended", 0, ())


def test_a_debug_section_that_pyelftools_cannot_unpack_costs_no_other_part(shop: Path, tmp_path: Path) -> None:
    """Its compression gets a number that nobody knows: ours says so, and so does pyelftools."""
    packed = tmp_path / "packed"
    subprocess.run(["objcopy", "--compress-debug-sections=zlib-gabi", str(shop), str(packed)], check=True)
    with Elf(str(packed)) as elf:
        (place,) = [each.offset for each in elf.sections if each.name == ".debug_info"]
    data = bytearray(packed.read_bytes())
    data[place : place + 4] = (9).to_bytes(4, "little")
    packed.write_bytes(data)
    found = part(packed, "rows of the line table")
    assert (found.differences, dict(found.reasons)) == ((), {"zstd": 1})
    assert part(packed, "unwind rules") == part(shop, "unwind rules")


def test_more_differences_than_are_shown_are_counted() -> None:
    found = Findings("sections", time.monotonic() + 60)
    for number in range(MOST_SHOWN + 5):
        found.same("one", number, "x")
    told = found.part()
    assert (len(told.differences), told.more) == (MOST_SHOWN, 5)
    assert told.differences[0] == "sections: one: ours 0, pyelftools x"


def test_what_pyelftools_raises_has_its_reason() -> None:
    found = Findings("unwind rules", time.monotonic() + 60)

    def fail(error: Exception) -> None:
        raise error

    for error in (AssertionError("Unknown CFI opcode: 0x2f"), MemoryError(), ValueError("new to us")):
        assert found.theirs(fail, error) is None
    told = found.part()
    assert dict(told.reasons) == {"instruction": 1, "memory": 1, "raised": 1}
    assert told.raised == "ValueError: new to us"
    assert {*dict(told.reasons)} | {name for _, name in known.RAISED} <= known.REASONS.keys()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "--verify", "/nope"), "tracer: error: /nope: no such file\n"),
        (("list", "--verify", "/etc/passwd"), "tracer: error: /etc/passwd: a text file, not an ELF file\n"),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_an_error(words: tuple[str, ...], said: str) -> None:
    done = tracer(*words)
    assert (done.status, done.out, done.said) == (1, b"", said)


def test_the_programs_of_this_machine_are_read_as_pyelftools_reads_them() -> None:
    places = [
        next((f"{folder}/{name}" for folder in FOLDERS if os.path.exists(f"{folder}/{name}")), "")
        if "/" not in name
        else name
        for name in EVERYWHERE
    ]
    there = [place for place in places if place and os.path.exists(place)]
    assert len(there) >= 20
    differences, compared = [], 0
    for place in there:
        for name in verify._parts():
            found = part(place, name, 0.3)
            differences += [f"{place}: {each}" for each in found.differences]
            compared += found.compared
    assert differences == []
    assert compared > 5000
