"""What stands at an address, compared with addr2line."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.targets.build import HERE
from tracer.resolve.dwarf.inline_frames import InlineFrames, Source
from tracer.resolve.dwarf.units.debug_entries import entries_of
from tracer.resolve.elf.file import Elf

FORMS = {
    "gcc 4": ("g++", "-gdwarf-4"),
    "gcc 5": ("g++", "-gdwarf-5"),
    "gcc, no .debug_aranges": ("g++", "-gdwarf-5"),
    "clang 4": ("clang++", "-gdwarf-4"),
    "clang 5": ("clang++", "-gdwarf-5"),
}


def frames(path: Path) -> InlineFrames:
    entries = entries_of(Elf(str(path)))
    assert entries is not None
    return InlineFrames(entries)


def addr2line(path: Path, addresses: list[int]) -> list[list[tuple[str, str]]]:
    command = ["addr2line", "-a", "-i", "-f", "-e", str(path), *map(hex, addresses)]
    found: list[list[str]] = []
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        found.append([]) if line.startswith("0x") else found[-1].append(line)
    return [
        [(name, place(where.partition(" (")[0])) for name, where in zip(each[::2], each[1::2], strict=True)]
        for each in found
    ]


def place(text: str) -> str:
    path, _, line = text.rpartition(":")
    return f"{os.path.normpath(path)}:{line}"


@pytest.mark.parametrize("form", list(FORMS))
def test_a_thousand_addresses_as_addr2line_names_them(form: str, tmp_path: Path) -> None:
    compiler, *flags = FORMS[form]
    program = tmp_path / "program"
    subprocess.run([compiler, *flags, "-O2", "-w", "-o", program, HERE / "hierarchy.cc"], check=True)
    if "aranges" in form:
        subprocess.run(["objcopy", "--remove-section=.debug_aranges", program], check=True)
    lookup = frames(program)
    every = random.Random(1)
    with Elf(str(program)) as elf:
        text = elf.section(".text")
        assert text is not None
        addresses = [text.address + every.randrange(text.size) for _ in range(1000)]
    compared = inlined = different = 0
    for address, theirs in zip(addresses, addr2line(program, addresses), strict=True):
        ours = lookup.sources_at(address)
        if ours:  # not between functions, where addr2line goes on with the line before
            compared += 1
            inlined += len(ours) > 1
            whole = [(each.name, f"{each.path}:{each.line or '?'}") for each in ours]
            assert whole[0][1] == theirs[0][1], hex(address)
            different += whole != theirs
    # addr2line 2.40 gives some inlined functions their callers' names, or leaves them out.
    assert compared > 500 and inlined > 50 and different <= compared // 20


@pytest.mark.parametrize("version", [4, 5])
def test_what_was_split_off_is_named_too(version: int, tmp_path: Path) -> None:
    command = ["gcc", "-O2", "-w", f"-gdwarf-{version}", "-gsplit-dwarf", "-c", "-o", "part.o", str(HERE / "inlines.c")]
    subprocess.run(command, check=True, cwd=tmp_path)
    subprocess.run(["gcc", "-o", "program", "part.o"], check=True, cwd=tmp_path)
    listing = subprocess.run(["objdump", "-d", "--disassemble=outer", "program"], cwd=tmp_path, capture_output=True,
                             text=True, check=True).stdout  # fmt: skip
    (call,) = (int(line.partition(":")[0], 16) for line in listing.splitlines() if "call" in line and "leaf" in line)
    source = str(HERE / "inlines.c")
    assert frames(tmp_path / "program").sources_at(call) == (
        Source("inner", source, 8), Source("middle", source, 13), Source("outer", source, 17),
    )  # fmt: skip


def test_where_nothing_is_known_is_nothing(tmp_path: Path) -> None:
    program = tmp_path / "program"
    subprocess.run(["gcc", "-g", "-w", "-o", program, HERE / "inlines.c"], check=True)
    assert frames(program).sources_at(0) == frames(program).sources_at(1 << 60) == ()
