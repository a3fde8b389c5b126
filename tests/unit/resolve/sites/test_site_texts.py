"""Source lines of addresses, beside what addr2line says of the same file."""

from __future__ import annotations

import os
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.targets.build import HERE, build
from tracer.resolve.dwarf.lines.programs import LinePrograms
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.sites.site_texts import SiteTexts


@pytest.mark.parametrize("name", ["lines-O0", "lines-O2", "lines-nopie", "carts", "depot"])
def test_every_third_byte_of_a_program_is_of_the_line_that_addr2line_says(name: str) -> None:
    path = build(name)
    with Elf(str(path)) as elf:
        functions = [each for each in Symbols(elf).functions if each.size]
    addresses = [at for each in functions for at in range(each.address, each.address + each.size, 3)]
    assert len(addresses) > 50
    done = subprocess.run(["addr2line", "-e", path], input="\n".join(map(hex, addresses)), check=True, text=True,
                          stdout=subprocess.PIPE)  # fmt: skip
    texts = SiteTexts(str(path))
    for address, line in zip(addresses, done.stdout.splitlines(), strict=True):
        wanted = line.partition(" (")[0]
        known = not wanted.endswith((":?", ":0"))
        found = texts.line(address)
        shown = None if found is None else os.path.basename(found)
        assert shown == (os.path.basename(wanted) if known else None), hex(address)
    texts.close()


def test_a_file_without_debug_information_has_no_lines_and_is_no_error() -> None:
    path = build("depot-stripped")
    texts = SiteTexts(str(path))
    assert texts.line(0x1000) is None
    texts.close()


def test_damage_costs_the_line_alone(tmp_path: Path) -> None:
    data = bytearray(build("lines-O2").read_bytes())
    with Elf(str(build("lines-O2"))) as elf:
        section = elf.section(".debug_line")
        (main,) = Symbols(elf).named("main")
        assert section is not None
    for at in range(section.offset, section.offset + section.size, 7):
        broken = bytearray(data)
        broken[at] ^= 0xFF
        path = tmp_path / f"broken{at}"
        path.write_bytes(broken)
        texts = SiteTexts(str(path))
        texts.line(main.address)  # whatever it says, it ends and raises nothing
        texts.close()


def test_of_lines_that_begin_at_one_address_the_one_that_is_meant_is_shown() -> None:
    path = build("lines-O2")
    with Elf(str(path)) as elf:
        rows = [row for each in LinePrograms(elf).of_file("lines.c") for row in each if row.path and row.line]
    address = next(one.address for one, other in pairwise(rows) if one.address == other.address != 0)
    lines = {row.line for row in rows if row.address == address}
    texts = SiteTexts(str(path))
    assert len(lines) > 1
    assert {texts.line(address, each) for each in lines} == {f"{HERE}/lines.c:{each}" for each in lines}
    texts.close()
