"""Source lines → addresses, against programs built in every way that changes their line tables."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracer.errors import ProgramError, Source, TracerError
from tracer.kinds.site import FileSite, Reg, Target, places_among
from tracer.lang.syntax.parser import parse
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.lines import programs as line_programs
from tracer.resolve.dwarf.lines.headers import read_header, units
from tracer.resolve.dwarf.lines.line_table import Sequence, decode
from tracer.resolve.dwarf.lines.programs import LinePrograms
from tracer.resolve.elf.file import Elf
from tracer.resolve.sites.expand import expand

MAIN_C = """\
#include "price.h"
int other(int);
int plain(int x)
{
    int y = price(x);

    return y + price(x + 1);
}
int main(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        argc -= plain(i) > 1000;
    return other(argc);
}
"""
PRICE_H = """\
static inline __attribute__((always_inline)) int price(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x * 3;
}
"""
OTHER_C = """\
#include "price.h"
#define TWO(a, b) int a(int x) { return x + 1; } int b(int x) { return x + 2; }
TWO(one, two)
int dropped(int x)
{
    return price(x) + 9;
}
int other(int x)
{
    return one(x) + two(x) + price(x);
}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A source tree with two files of one name and a header that both include."""
    for name, text in {
        "include/price.h": PRICE_H,
        "app/main.c": MAIN_C,
        "app/other.c": OTHER_C,
        "lib/other.c": "int unused_by_main(int x)\n{\n    return x;\n}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def built(place: Path, *flags: str, sources: tuple[str, ...] = ("main.c", "other.c"), name: str = "shop") -> Path:
    """Compiled in app/ by relative names, as make does."""
    command = ["gcc", "-w", "-g", "-I../include", *flags, *sources, "-o", str(place / name)]
    subprocess.run(command, check=True, cwd=place / "app")
    return place / name


def sites(point: str) -> tuple[FileSite, ...]:
    return tuple(places_among(expand(parse(Source(point + " { @ = count(); }")), Target())[0]))


def fault(point: str) -> tuple[str, str | None]:
    with pytest.raises(ProgramError) as caught:
        sites(point)
    (found,) = caught.value.diagnostics
    return found.message, found.hint


def objdump(path: Path, file: str, line: int) -> set[int]:
    """The addresses that binutils prints for statements of a line."""
    text = subprocess.run(["objdump", "--dwarf=decodedline", str(path)], check=True, capture_output=True, text=True)
    found = re.findall(rf"^{re.escape(file)} +{line} +(0x[0-9a-f]+) .*x$", text.stdout, re.M)
    return {int(each, 16) for each in found}


@pytest.mark.parametrize("version", ["-gdwarf-3", "-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize("optimise", ["-O0", "-O2"])
@pytest.mark.parametrize("position", [("-pie", "-fPIE"), ("-no-pie", "-fno-pie")])
def test_a_line_of_an_inline_function_is_found_in_every_function_that_has_a_copy(
    place: Path, version: str, optimise: str, position: tuple[str, ...]
) -> None:
    shop = built(place, version, optimise, "-fno-inline-functions", "-fno-inline-small-functions", *position)
    found = sites(f"uprobe:{shop}:price.h:4")
    assert [each.function for each in found if each.function == "plain"] == ["plain", "plain"]
    assert {each.function for each in found} >= {"plain", "dropped", "other"}
    assert {each.probe for each in found} == {f"uprobe:{shop}:price.h:4"}
    assert {each.kind for each in found} == {"uprobe"}
    addresses = [each.address for each in found]
    assert addresses == sorted(set(addresses))
    assert set(addresses) <= objdump(shop, "price.h", 4)
    with Elf(str(shop)) as elf:
        assert [each.offset for each in found] == [elf.offset_of(address) for address in addresses]


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_files_match_by_whole_components_at_the_end_of_their_paths(place: Path, version: str) -> None:
    shop = built(place, version)
    (expected,) = sites(f"uprobe:{shop}:main.c:5")
    assert expected.function == "plain"
    for name in ("app/main.c", f"{place}/app/main.c", f"{place.name}/app/main.c", "./main.c", "app/../app/main.c"):
        (found,) = sites(f"uprobe:{shop}:{name}:5")
        assert (found.address, found.probe) == (expected.address, f"uprobe:{shop}:{name}:5")
    for name in ("ain.c", "pp/main.c", "lib/main.c", "/app/main.c"):
        assert fault(f"uprobe:{shop}:{name}:5")[0] == f"{shop}: no code comes from a source file '{name}'"


def test_the_other_spelling_and_a_column_mean_the_same_places(place: Path) -> None:
    shop = built(place)
    (expected,) = sites(f"uprobe:{shop}:main.c:5")
    (found,) = sites(f"uprobe:{shop}@app/main.c:5")
    assert (found.address, found.probe) == (expected.address, f"uprobe:{shop}:app/main.c:5")
    (found,) = sites(f"uprobe:{shop}@main.c:5:13")
    assert (found.address, found.probe) == (expected.address, f"uprobe:{shop}:main.c:5:13")
    assert fault(f"uprobe:{shop}:main.c:5:2") == (
        f"{shop}: no statement begins at main.c:5:2",
        "statements of that line begin at column 13",
    )


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_a_name_that_several_files_have_is_refused_with_their_paths(place: Path, version: str) -> None:
    shop = built(place, version, sources=("main.c", "other.c", "../lib/other.c"))
    assert fault(f"uprobe:{shop}:other.c:3") == (
        f"{shop}: 'other.c' may be 2 source files: {place}/app/other.c, {place}/lib/other.c",
        "write more of the path",
    )
    (found,) = sites(f"uprobe:{shop}:lib/other.c:3")
    assert found.function == "unused_by_main"


def test_a_file_of_which_no_code_is_left_makes_nothing_ambiguous(place: Path) -> None:
    flags = ("-ffunction-sections", "-Wl,--gc-sections")
    shop = built(place, *flags, sources=("main.c", "other.c", "../lib/other.c"))
    assert {each.function for each in sites(f"uprobe:{shop}:other.c:3")} == {"one", "two"}
    assert fault(f"uprobe:{shop}:other.c:6")[0] == f"{shop}: no code begins at other.c:6"


def test_two_functions_on_one_line_are_two_places(place: Path) -> None:
    shop = built(place)
    assert [each.function for each in sites(f"uprobe:{shop}:other.c:3")] == ["one", "two"]


def test_a_for_line_is_reached_where_its_loop_is_and_its_other_parts_by_their_columns(place: Path) -> None:
    shop = built(place, "-O0")
    (entered,) = sites(f"uprobe:{shop}:main.c:11")
    (body,) = sites(f"uprobe:{shop}:main.c:12")
    (step,) = sites(f"uprobe:{shop}:main.c:11:{MAIN_C.splitlines()[10].index('i++') + 2}")
    assert entered.address < body.address < step.address


def test_what_follows_an_inlined_call_is_not_reached_a_second_time(place: Path) -> None:
    shop = built(place, "-O0")
    assert len(objdump(shop, "main.c", 7)) > 1
    assert len(sites(f"uprobe:{shop}:main.c:7")) == 1


def test_arguments_are_the_registers_and_nothing_of_the_stack(place: Path) -> None:
    shop = built(place)
    (inside,) = sites(f"uprobe:{shop}:main.c:7")
    assert isinstance(inside.args[0].operand, Reg)
    assert not any(type(each.operand).__name__ == "Mem" for each in inside.args)
    (entry,) = sites(f"uprobe:{shop}:main.c:4")
    assert entry.args == sites(f"uprobe:{shop}:plain")[0].args


def test_a_line_without_code_is_refused_with_its_neighbours(place: Path) -> None:
    shop = built(place)
    assert fault(f"uprobe:{shop}:main.c:6") == (
        f"{shop}: no code begins at main.c:6",
        "the nearest lines with code are 5 and 7",
    )
    assert fault(f"uprobe:{shop}:main.c:999") == (
        f"{shop}: no code begins at main.c:999",
        "the nearest line with code is 14",
    )
    assert fault(f"uprobe:{shop}:mian.c:5") == (
        f"{shop}: no code comes from a source file 'mian.c'",
        "did you mean main.c?",
    )


def test_a_file_without_debug_information_is_refused_with_the_remedy(place: Path) -> None:
    shop = built(place, "-g0")
    assert fault(f"uprobe:{shop}:main.c:5") == (
        f"{shop}: the file has no debug information, so its source lines are not known",
        "compile it with -g, or install its debug symbols",
    )


def test_lines_are_read_from_the_separate_debug_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = built(place, "-O2")
    expected = sites(f"uprobe:{shop}:price.h:4")
    build_id = Binary(str(shop)).elf.build_id
    assert build_id is not None
    debug = place / "debug" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", str(shop), str(debug)], check=True)
    subprocess.run(["strip", str(shop)], check=True)
    assert "no debug information" in fault(f"uprobe:{shop}:price.h:4")[0]
    monkeypatch.setattr("tracer.resolve.elf.debug_file.DEBUG_ROOT", str(place / "debug"))
    found = sites(f"uprobe:{shop}:price.h:4")
    assert [(each.address, each.function) for each in found] == [(each.address, each.function) for each in expected]


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_compressed_line_tables_say_the_same(place: Path, version: str) -> None:
    plain = built(place, version, "-gz=none", name="plain")
    packed = built(place, version, "-gz=zlib", name="packed")
    assert Binary(str(packed)).elf.section(".debug_line").flags & 0x800  # type: ignore[union-attr]
    for line in (5, 7, 11):
        expected = [each.address for each in sites(f"uprobe:{plain}:app/main.c:{line}")]
        assert [each.address for each in sites(f"uprobe:{packed}:app/main.c:{line}")] == expected


def test_only_units_that_can_name_the_file_are_decoded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = built(place)
    decoded = []

    def counted(code: bytes, *more: Any) -> Iterator[Sequence]:
        decoded.append(code)
        return decode(code, *more)

    monkeypatch.setattr(line_programs, "decode", counted)
    sites(f"uprobe:{shop}:main.c:5")
    assert len(decoded) == 1
    sites(f"uprobe:{shop}:price.h:4")
    assert len(decoded) == 3


def test_damaged_line_tables_end_in_one_line_or_in_places_that_are_safe(place: Path) -> None:
    shop = built(place, "-gdwarf-4")
    newer = built(place, "-gdwarf-5", name="newer")
    chance = random.Random(36)
    for path in (shop, newer):
        with Elf(str(path)) as elf:
            known = {name: elf.section(name) for name in (".debug_line", ".debug_line_str", ".debug_info")}
        content = path.read_bytes()
        for _ in range(150):
            damaged = bytearray(content)
            section = chance.choice([each for each in known.values() if each is not None])
            for _ in range(chance.choice((1, 3, 40))):
                damaged[section.offset + chance.randrange(section.size)] = chance.randrange(256)
            copy = place / "damaged"
            copy.write_bytes(damaged)
            try:
                found = sites(f"uprobe:{copy}:app/main.c:5")
            except ProgramError as error:
                (diagnostic,) = error.diagnostics
                assert "\n" not in diagnostic.message
                continue
            assert all(each.function for each in found)


def header(tables: bytes) -> bytes:
    """A unit of DWARF 5 with these tables of directories and files, and no code but one byte."""
    fields = bytes([1, 1, 1, 0xFB, 14, 1]) + tables
    rest = struct.pack("<HBBI", 5, 8, 0, len(fields)) + fields + b"\0"
    return struct.pack("<I", len(rest)) + rest


def test_a_header_says_names_and_directories() -> None:
    data = header(b"\1\1\x08\2/src\0lib\0" + b"\2\1\x1f\2\x0b\1" + struct.pack("<IB", 3, 1))
    (unit,) = units(data)
    found = read_header(data, unit, b"xx\0shop.c\0")
    assert (found.directories, found.files, found.first) == ([b"/src", b"lib"], [(b"shop.c", 1)], 0)


@pytest.mark.parametrize(
    "tables",
    [
        b"\0" + b"\xff" * 8 + b"\x7f",  # entries without fields
        b"\1\1\x19" + b"\xff" * 8 + b"\x7f",  # fields of no size
        b"\1\1\x0b" + b"\xff" * 8 + b"\x7f",  # more entries than bytes
        b"\1\1\x1f\1\xff\xff\xff\xff",  # a name outside its table
        b"\1\1\x08\1no end",
        b"\1\x80\x80",
    ],
)
def test_a_header_that_claims_too_much_ends_at_once(tables: bytes) -> None:
    data = header(tables)
    (unit,) = units(data)
    with pytest.raises((ValueError, IndexError)):
        read_header(data, unit, b"name\0")


def test_every_statement_that_objdump_shows_lies_in_a_piece_that_was_found(place: Path) -> None:
    """The first row of each piece, no more and no less, for every line of a file."""
    shop = built(place, "-O2")
    with Elf(str(shop)) as elf:
        pieces = list(LinePrograms(elf).of_file("main.c"))
    lines = {row.line for piece in pieces for row in piece if row.path is not None and row.is_stmt}
    assert lines
    for line in lines:
        found = {each.address for each in sites(f"uprobe:{shop}:main.c:{line}")}
        shown = objdump(shop, "main.c", line)
        assert min(shown) in found
        assert found <= shown


@pytest.fixture
def moved(place: Path) -> Iterator[Path]:
    shop = built(place, "-O2")
    for each in ("app", "lib", "include"):
        shutil.rmtree(place / each)
    yield shop


def test_the_source_itself_is_not_needed(moved: Path) -> None:
    assert sites(f"uprobe:{moved}:main.c:5")


def test_a_pattern_of_files_takes_those_that_know_the_line(place: Path) -> None:
    shop = built(place, name="shop1")
    built(place, "-g0", name="shop2")
    assert [each.path for each in sites(f"uprobe:{place}/shop?:main.c:5")] == [str(shop)]
    assert fault(f"uprobe:{place}/shop?:main.c:6")[1] == "the nearest lines with code are 5 and 7"
    assert fault(f"uprobe:{place}/shop?:gone.c:6")[0] == "no code comes from 'gone.c' in any of 2 files"
    assert issubclass(ProgramError, TracerError)
