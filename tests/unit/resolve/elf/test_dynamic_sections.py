"""Files without section headers, as packers and `llvm-strip --strip-sections` leave them."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elfwriter import ElfWriter, usdt_note
from tests.unit.resolve.programs import FUNCTIONS_C
from tracer.errors import ProgramError, Source
from tracer.kinds.site import Target
from tracer.lang.syntax.parser import parse
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.relocations import relocations
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.sites.expand import expand

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"


def without_headers(path: Path | str, to: Path) -> Path:
    content = bytearray(Path(path).read_bytes())
    content[40:48] = bytes(8)  # e_shoff
    content[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    to.write_bytes(content)
    return to


def with_none(path: Path | str, to: Path) -> Path:
    """As tools leave it that count no headers and keep where they were."""
    content = bytearray(Path(path).read_bytes())
    content[60:62] = bytes(2)  # e_shnum
    (at,) = struct.unpack_from("<Q", content, 40)
    content[at : at + 64] = bytes(64)
    to.write_bytes(content)
    return to


def cut_off(path: Path | str, to: Path) -> Path:
    content = Path(path).read_bytes()
    to.write_bytes(content[: struct.unpack_from("<Q", content, 40)[0]])
    return to


def exported(path: Path | str) -> tuple[set[object], list[object]]:
    with Elf(str(path)) as elf:
        table = Symbols(elf).exported
        assert table is not None
        return set(table.functions), [*sorted(relocations(elf))]


@pytest.mark.parametrize("style", ["sysv", "gnu", "both"])
def test_functions_and_relocations_are_those_that_the_section_headers_name(
    style: str, build: Build, tmp_path: Path
) -> None:
    program = build(FUNCTIONS_C, "-O1", "-rdynamic", f"-Wl,--hash-style={style}")
    found = exported(without_headers(program, tmp_path / "program"))
    assert found == exported(program) and len(found[0]) > 3


@pytest.mark.parametrize("without", [with_none, cut_off])
def test_so_it_is_where_the_headers_are_counted_as_none_or_cut_off(
    without: Callable[[Path, Path], Path], build: Build, tmp_path: Path
) -> None:
    program = build(FUNCTIONS_C, "-O1", "-rdynamic")
    assert exported(without(program, tmp_path / "program")) == exported(program)


def test_so_it_is_for_the_c_library_with_all_its_versions(tmp_path: Path) -> None:
    assert exported(without_headers(LIBC, tmp_path / "libc")) == exported(LIBC)


def test_a_library_that_defines_nothing_has_the_symbols_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "n.c").write_text("int puts(const char *); static void f(void) { puts(0); } void *p = f;")
    flags = ["-shared", "-fPIC", "-nostartfiles", "-Wl,--hash-style=gnu", "-fvisibility=hidden"]
    subprocess.run(["gcc", *flags, "n.c", "-o", "n"], cwd=tmp_path, check=True)
    with Elf(str(without_headers(tmp_path / "n", tmp_path / "bare"))) as elf:
        assert Symbols(elf).imports("puts")


@pytest.mark.parametrize(("tag", "style"), [(4, "sysv"), (5, "both"), (6, "both"), (0x6FFFFEF5, "gnu")])
def test_tables_at_nonsense_addresses_are_none(tag: int, style: str, build: Build, tmp_path: Path) -> None:
    flags = ("-O1", "-rdynamic", f"-Wl,--hash-style={style}")
    program = without_headers(build(FUNCTIONS_C, *flags), tmp_path / "program")
    content = bytearray(program.read_bytes())
    with Elf(str(program)) as elf:
        (dynamic,) = [each for each in elf.segments if each.type == 2]
    for at in range(dynamic.offset, dynamic.offset + dynamic.file_size, 16):
        if struct.unpack_from("<q", content, at)[0] == tag:
            struct.pack_into("<Q", content, at + 8, 0x7FFFFFFFFFFF0000)
    program.write_bytes(content)
    with Elf(str(program)) as elf:
        assert Symbols(elf).functions == ()


def test_that_usdt_probes_cannot_be_found_is_the_reason_that_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ElfWriter(notes=usdt_note("p", "a")).write(tmp_path / "whole")
    without_headers(tmp_path / "whole", tmp_path / "bare")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProgramError) as caught:
        expand(parse(Source("usdt:./bare:p:a { @ = count(); }")), Target())
    reason = "the file has no section headers, without which USDT probes cannot be found"
    assert caught.value.diagnostics[0].message == f"./bare: {reason}"


def test_a_return_probe_goes_on_the_rets_where_nothing_says_what_compiler_made_the_file(
    build: Build, tmp_path: Path
) -> None:
    program = without_headers(build(FUNCTIONS_C, "-O1", "-rdynamic"), tmp_path / "program")
    sites = expand(parse(Source(f"uretprobe:{program}:public_name {{ @ = count(); }}")), Target())[0]
    assert {site.kind for site in sites} == {"ret"}
