from __future__ import annotations

import fnmatch
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elfwriter import TEXT_ADDRESS, ElfWriter
from tests.unit.resolve.programs import FUNCTIONS_C, THROWS_CC
from tracer.kinds.site import EVERY_PROCESS
from tracer.resolve.binary import Binary
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.elf.symbols import Symbols, is_cold
from tracer.resolve.functions.lookup import find_functions
from tracer.resolve.listing import list_lines

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"


def nm(path: str, *flags: str) -> set[tuple[str, int]]:
    """Name and address of the functions that nm lists, versions cut off."""
    text = subprocess.run(["nm", *flags, path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {(row[2].partition("@")[0], int(row[0], 16)) for row in rows if len(row) == 3 and row[1] in "TtWwi"}


def functions(path: str) -> set[tuple[str, int]]:
    return {(each.name, each.address) for each in Symbols(Elf(path)).functions}


@pytest.mark.parametrize(
    ("path", "flags"),
    [
        ("/usr/bin/python3.11", ("-D",)),
        ("/usr/lib/postgresql/15/bin/postgres", ("-D",)),
        (LIBC, ("-D",)),
        ("/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so", ()),
    ],
)
def test_every_function_is_one_that_nm_knows_and_none_is_missing(path: str, flags: Sequence[str]) -> None:
    ours, theirs = functions(path), nm(path, *flags)
    if path.endswith("libjvm.so"):
        theirs |= nm(path, "-D")
    assert len(ours) > 1000
    assert ours <= theirs
    # What nm calls T and is no function: labels of hand-written assembler, of type NOTYPE.
    types = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=True).stdout
    typed = {
        (row[7].partition("@")[0], int(row[1], 16))
        for row in map(str.split, types.splitlines())
        if len(row) >= 8 and row[3] in ("FUNC", "IFUNC") and row[6] not in ("UND", "Ndx") and int(row[1], 16)
    }
    assert ours == typed


def writer(*symbols: tuple[str, int, int, int]) -> Symbols:
    return Symbols(Elf("file", ElfWriter(text=bytes(256), symbols=list(symbols)).build()))


LOCAL, GLOBAL, WEAK, IFUNC = 0x02, 0x12, 0x22, 0x1A
AT = TEXT_ADDRESS


def test_a_name_means_every_place_it_stands_at() -> None:
    symbols = writer(("twice", AT + 32, 8, LOCAL), ("once", AT, 8, GLOBAL), ("twice", AT + 16, 8, LOCAL))
    assert [each.address for each in symbols.named("twice")] == [AT + 16, AT + 32]
    assert symbols.named("none") == ()
    assert symbols.named("twic") == ()
    assert symbols.named("wice") == ()


def test_a_default_version_hides_the_older_ones() -> None:
    symbols = writer(("f@@V2", AT + 16, 8, GLOBAL), ("f@V1", AT, 8, GLOBAL))
    assert symbols.named("f") == (Function("f", AT + 16, 8, version="V2"),)
    assert symbols.named("f@V1") == (Function("f", AT, 8, default=False, version="V1"),)
    assert symbols.named("f@@V2") == symbols.named("f")
    assert symbols.named("f@V3") == ()


def test_glibc_versions_come_from_its_version_table() -> None:
    (new,) = Binary(LIBC).symbols.named("pthread_cond_wait")
    text = subprocess.run(["nm", "-D", LIBC], capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in text.splitlines() if "pthread_cond_wait@@" in line]
    assert new.address == int(line.split()[0], 16)


def test_every_version_that_nm_names_is_found_and_a_wildcard_means_the_default_one() -> None:
    text = subprocess.run(["nm", "-D", LIBC], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines() if "@" in line]
    named = {row[2]: int(row[0], 16) for row in rows if len(row) == 3 and row[1] in "TWi"}
    binary = Binary(LIBC)
    known = {each.name for each in binary.symbols.functions}
    assert len([name for name in named if "@@" not in name]) > 50
    for name, address in named.items():
        if name.partition("@")[0] in known:  # some are labels of assembler and no functions
            assert address in {each.address for each in binary.symbols.named(name)}, name
    older = {each.address for each in find_functions(binary, "memcpy@G*")}
    assert older == {named["memcpy@GLIBC_2.2.5"]} <= {each.address for each in find_functions(binary, "mem*")}


VERSIONS_C = """
__asm__(".symver first,calc@VER_1"); __asm__(".symver second,calc@@VER_2"); __asm__(".symver only,old@VER_1");
int first(int x) { return x + 1; }
int second(int x) { return x + 2; }
int calc_alias(int) __attribute__((alias("second")));
int only(int x) { return x; }
"""
VERSIONS = "VER_1 { global: calc; old; local: *; }; VER_2 { global: calc; calc_alias; } VER_1;"


@pytest.mark.parametrize("linker", ["bfd", "lld"])
@pytest.mark.parametrize("stripped", [False, True])
def test_a_wildcard_means_all_versions_and_a_name_the_default_one(
    linker: str, stripped: bool, tmp_path: Path
) -> None:
    (tmp_path / "v.c").write_text(VERSIONS_C)
    (tmp_path / "map").write_text(VERSIONS)
    path = tmp_path / "lib.so"
    command = ["gcc", f"-fuse-ld={linker}", "-fPIC", "-shared", "-Wl,--version-script=map", "-o", str(path), "v.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    if stripped:
        subprocess.run(["strip", path], check=True)
    binary = Binary(str(path))
    (current,), (older,) = find_functions(binary, "calc"), find_functions(binary, "calc@VER_1")
    assert (current.name, older.name) == ("calc", "calc@VER_1") and current.address != older.address
    found = [(each.name, each.address) for each in find_functions(binary, "calc*")]
    assert sorted(found) == [("calc", current.address), ("calc@VER_1", older.address)]
    assert [each.name for each in find_functions(binary, "old*")] == ["old"]  # there is no newer one
    if stripped:
        listed = list(list_lines(f"uprobe:{path}:*", EVERY_PROCESS))
        assert listed == [f"uprobe:{path}:calc\nuprobe:{path}:calc@VER_1\nuprobe:{path}:old\n"]


def test_a_wildcard_takes_each_place_once_under_its_most_public_name() -> None:
    symbols = writer(
        ("_x_weak", AT, 8, WEAK),
        ("x_local", AT, 8, LOCAL),
        ("__x_long", AT, 8, GLOBAL),
        ("x_long", AT, 8, GLOBAL),
        ("x_other", AT + 16, 8, LOCAL),
    )
    assert [each.name for each in symbols.matching(lambda _: True)] == ["x_long", "x_other"]
    assert [each.name for each in symbols.matching(lambda name: name.endswith("weak"))] == ["_x_weak"]


def test_cold_parts_are_no_functions_for_wildcards() -> None:
    symbols = writer(("f", AT, 8, GLOBAL), ("f.cold", AT + 16, 8, LOCAL), ("g.cold.3", AT + 32, 8, LOCAL))
    assert [each.name for each in symbols.matching(lambda _: True)] == ["f"]
    assert not is_cold("f.coldest") and not is_cold("cold")


@pytest.mark.parametrize("few", [0, 8])
def test_an_address_belongs_to_the_innermost_function_that_holds_it(few: int) -> None:
    symbols = writer(
        ("outer", AT, 64, GLOBAL),
        ("inner", AT + 16, 16, LOCAL),
        ("alias_", AT + 16, 16, GLOBAL),
        ("open", AT + 80, 0, GLOBAL),
        ("next", AT + 96, 8, GLOBAL),
        ("last", AT + 128, 0, GLOBAL),
    )
    symbols._few_lookups = few

    def name(address: int) -> str | None:
        found = symbols.function_at(address)
        return None if found is None else found.name

    assert [name(AT + each) for each in (0, 15, 16, 31, 32, 63)] == [
        "outer",
        "outer",
        "alias_",
        "alias_",
        "outer",
        "outer",
    ]
    assert [name(AT + each) for each in (64, 79, 80, 95, 96, 103, 104)] == [
        None,
        None,
        "open",
        "open",
        "next",
        "next",
        None,
    ]
    assert [name(AT + each) for each in (128, 129, -1)] == ["last", None, None]


def test_a_compiled_program_has_its_functions_aliases_and_ifuncs(build: Build) -> None:
    binary = Binary(str(build(FUNCTIONS_C, "-O1")))
    names = [each.name for each in find_functions(binary, "*_name")]
    assert names == ["other_name"] or names == ["public_name"]
    assert [each.name for each in find_functions(binary, "helper_*")] == ["helper_one", "helper_two"]
    assert {each.name for each in binary.symbols.functions if each.ifunc} == {"chosen"}
    assert "chosen" not in [each.name for each in find_functions(binary, "*")]
    assert binary.symbols.imports("getenv") and not binary.symbols.imports("main")


def test_a_stripped_program_keeps_what_it_exports(build: Build) -> None:
    binary = Binary(str(build(FUNCTIONS_C, "-O1", "-s", "-rdynamic")))
    assert binary.symbols.stripped
    assert binary.symbols.named("helper_one") == ()
    assert len(binary.symbols.named("public_name")) == 1


def test_the_debug_file_that_the_build_id_names_is_read(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = build(FUNCTIONS_C, "-O1", "-Wl,--build-id")
    stripped = tmp_path / "app"
    subprocess.run(["strip", "-o", str(stripped), str(full)], check=True)
    build_id = Elf(str(stripped)).build_id
    assert build_id is not None
    folder = tmp_path / ".build-id" / build_id[:2]
    folder.mkdir(parents=True)
    debug = folder / f"{build_id[2:]}.debug"
    monkeypatch.setattr("tracer.resolve.elf.debug_file.DEBUG_ROOT", str(tmp_path))
    assert Binary(str(stripped)).symbols.named("helper_one") == ()
    subprocess.run(["objcopy", "--only-keep-debug", str(full), str(debug)], check=True)
    found = Binary(str(stripped)).symbols
    assert found.named("helper_one") == Binary(str(full)).symbols.named("helper_one") != ()
    assert not found.stripped
    other = build(THROWS_CC, "-Wl,--build-id", language="c++")
    debug.write_bytes(other.read_bytes())  # of another build: not believed
    assert Binary(str(stripped)).symbols.named("helper_one") == ()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("shop::Order::price", {"shop::Order::price(int) const", "shop::Order::price(long, char)"}),
        ("shop::Order::price(int) const", {"shop::Order::price(int) const"}),
        ("shop::*::price", {"shop::Order::price(int) const", "shop::Order::price(long, char)"}),
        ("*::price(long*)", {"shop::Order::price(long, char)"}),
        ("crossed(int)", {"crossed(int)"}),
        ("crossed", {"crossed(int)"}),
        ("_Z7crossedi", {"crossed(int)"}),
        ("crosse", set()),
        ("shop::Order::cost", set()),
    ],
)
def test_cpp_functions_are_found_by_their_name_in_the_source(build: Build, pattern: str, expected: set[str]) -> None:
    binary = Binary(str(build(THROWS_CC, "-O0", language="c++")))
    assert {binary.readable(each.name) for each in find_functions(binary, pattern)} == expected


def test_wildcards_are_those_of_glob(build: Build) -> None:
    binary = Binary(LIBC)
    every = {each.name for each in binary.symbols.functions}
    for pattern in ("str[cn]*", "mem?lign", "get[!a-f]*id"):
        found = {each.name for each in find_functions(binary, pattern)}
        assert found and found <= set(fnmatch.filter(every, pattern))
