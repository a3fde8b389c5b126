"""What an attach point meant in a file is found again, and is not believed once anything of it has changed."""

from __future__ import annotations

import importlib
import os
import shutil
import time
from pathlib import Path
from typing import NoReturn

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.programs import FUNCTIONS_C, PROBES_C, SEMAPHORE_C, THROWS_CC
from tests.unit.resolve.sites.test_expand import LIBC, fault, sites, verify_sites
from tracer.errors import Source, TracerError
from tracer.kinds.site import ArgSpec, Const, Global, GlobalPointer, Mem, Operand, Reg, Target, Unreadable
from tracer.lang.syntax.parser import parse
from tracer.resolve import binary, marshalling
from tracer.resolve.elf import debug_file
from tracer.resolve.files import first_bytes
from tracer.resolve.sites import site_cache
from tracer.resolve.sites.expand import expand
from tracer.resolve.symbols import demangle


@pytest.fixture
def here(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with test programs, whose sites are kept although they have just been written."""
    monkeypatch.setattr(site_cache, "SETTLED_NS", 0)
    for name, source, flags in [
        ("shop", PROBES_C, ("-O2", "-g")),
        ("sema", SEMAPHORE_C, ("-O2",)),
        ("funcs", FUNCTIONS_C, ("-O1",)),
    ]:
        shutil.copy2(build(source, *flags), tmp_path / name)
    shutil.copy2(build(THROWS_CC, "-O0", language="c++"), tmp_path / "classes")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class _Read(Exception):
    pass


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(self: object, path: str, shown: str | None = None) -> NoReturn:
        raise _Read(path)

    monkeypatch.setattr(binary.Binary, "__init__", read)


POINTS = [
    "usdt:./shop:shop:order",
    "usdt:./shop:*",
    "usdt:./sema:*:*",
    "uprobe:./funcs:main",
    "uprobe:./funcs:[!c]*",
    "uretprobe:./funcs:main",
    "uprobe:./shop:source.c:12",
    "uprobe:./classes:main",
    f"uprobe:{LIBC}:malloc+4",
    "uprobe:libc:malloc",
]


@pytest.mark.parametrize("points", POINTS)
def test_a_file_that_is_known_is_not_read_and_means_the_same(
    here: Path, points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = sites(points)
    forbid_reading(monkeypatch)
    assert sites(points) == cold
    verify_sites(cold)


def test_a_wildcard_of_thousands_is_known_too(here: Path, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 2 * first_bytes._FEW
    source = "".join(f"void f{each}(void) {{ __asm__(\"nop\"); }}\n" for each in range(number)) + "int main() {}\n"
    shutil.copy2(build(source, "-O1"), here / "many")
    cold = sites("uprobe:./many:f[0-9]*")
    assert len(cold) == number
    forbid_reading(monkeypatch)
    assert sites("uprobe:./many:f[0-9]*") == cold
    monkeypatch.setattr(site_cache, "code_at", lambda *args: [*first_bytes.code_at(*args)[:-1], b"?"])
    with pytest.raises(_Read):
        sites("uprobe:./many:f[0-9]*")


@pytest.mark.parametrize("window", [16, 17, 40, 1 << 20])
def test_what_is_compared_at_many_sites_is_what_is_compared_at_few(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(256)) * 2
    offsets = [511, 3, 3, 200, 0, 17, 500, 18, 100, 496]

    def read(offset: int, size: int) -> bytes:
        return content[offset : offset + size]

    few = first_bytes.code_at(read, offsets)
    monkeypatch.setattr(first_bytes, "_FEW", 0)
    monkeypatch.setattr(first_bytes, "_WINDOW", window)
    assert first_bytes.code_at(read, offsets) == few == [content[each : each + 16] for each in sorted(offsets)]


@pytest.mark.parametrize(
    "values",
    [[], ["a:x"], ["a:x", "a:y", "a:"], ["x", "y", ""], ["", ""], ["a\0b", "a"], [1, 2], [None, None], [0, None]],
)
def test_a_column_of_any_values_is_found_again(values: list[object]) -> None:
    ends: list[str] = []
    column = site_cache._column(values, ends if values and isinstance(values[0], str) else None)
    assert site_cache._opened(*column, len(values), [each.split("\0") for each in ends]) == values


def test_names_are_made_readable_where_the_program_asks_for_func_alone(here: Path) -> None:
    def functions(body: str) -> set[str]:
        return {site.function for site in expand(parse(Source(f"uprobe:./classes:_Z* {{ {body} }}")), Target())[0]}

    plain, readable = functions("@ = count();"), functions("@[func] = count();")
    assert all(name.startswith("_Z") for name in plain)
    assert not any(name.startswith("_Z") for name in readable)
    assert (functions("@ = count();"), functions("@[func] = count();")) == (plain, readable)


def test_every_form_of_operand_is_found_again() -> None:
    place = Global(1, 2, -3, "ax", 8)
    every: tuple[Operand, ...] = (Const(-1), Reg("di"), Mem("bp", -8, None, 4), place, GlobalPointer(place))
    every = (*every, Unreadable("because"))
    specs = tuple(ArgSpec(f"8@{number}", 8, True, operand, number == 1) for number, operand in enumerate(every))
    assert marshalling.rebuilt(marshalling.plain(specs, site_cache._CLASSES), site_cache._CLASSES) == specs


def rebuilt(path: Path) -> None:
    """Another content of the same size under the same name, inode and mtime."""
    before = path.stat()
    content = path.read_bytes().replace(b"shop\0order\0", b"SHOP\0order\0")
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (before.st_ino, before.st_size, before.st_mtime_ns) == (after.st_ino, after.st_size, after.st_mtime_ns)


def test_a_file_rewritten_in_place_with_its_old_times_is_read_again(here: Path) -> None:
    cold = sites("usdt:./shop:*:order")
    rebuilt(here / "shop")
    warm = sites("usdt:./shop:*:order")
    assert {site.probe for site in cold} == {"usdt:./shop:shop:order"}
    assert {site.probe for site in warm} == {"usdt:./shop:SHOP:order"}


def test_attaching_refuses_sites_of_a_file_that_was_rewritten_in_place_since(here: Path) -> None:
    sites("usdt:./shop:shop:order")
    warm = sites("usdt:./shop:shop:order")
    rebuilt(here / "shop")
    with pytest.raises(TracerError, match="the file changed after its probes were looked up"):
        verify_sites(warm)


def test_another_file_under_the_name_is_read(here: Path, build: Build) -> None:
    sites("usdt:./shop:shop:order")
    copy = here / "copy"
    shutil.copy2(here / "shop", copy)
    copy.rename(here / "shop")  # the same content and times in another inode
    again = sites("usdt:./shop:shop:order")
    assert {site.identity.inode for site in again} == {(here / "shop").stat().st_ino}


def test_code_that_is_no_longer_there_is_not_believed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the file seemed the same: a mapping may be written without its times changing."""
    found = sites("usdt:./shop:shop:consts")
    content = bytearray((here / "shop").read_bytes())
    content[found[0].offset] = 0xF4
    (here / "shop").write_bytes(bytes(content))
    real = site_cache._identity(os.stat(here / "shop"))
    identity = found[0].identity
    then = (identity.device, identity.inode, identity.size, identity.mtime_ns, identity.ctime_ns)
    monkeypatch.setattr(site_cache, "_identity", lambda status: then)
    assert real != then
    assert "does not hold the nop that its note promises" in fault("usdt:./shop:shop:consts")[0]


def test_a_file_that_has_just_changed_is_not_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_cache, "SETTLED_NS", 600_000_000_000)  # a busy machine may take its time in between
    os.utime(here / "shop")
    sites("usdt:./shop:shop:order")
    forbid_reading(monkeypatch)
    with pytest.raises(_Read):
        sites("usdt:./shop:shop:order")


def test_a_file_without_a_time_of_change_is_not_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = site_cache._identity_at
    monkeypatch.setattr(site_cache, "_of", lambda identity: (*real(str(here / "shop"))[:4], 0))  # type: ignore[index]
    monkeypatch.setattr(site_cache, "_identity_at", lambda path: (*real(path)[:4], 0))  # type: ignore[index]
    sites("usdt:./shop:shop:order")
    monkeypatch.setattr(site_cache, "_identity_at", real)
    forbid_reading(monkeypatch)
    with pytest.raises(_Read):
        sites("usdt:./shop:shop:order")


def test_a_debug_file_that_was_installed_since_is_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = here / "debug"
    monkeypatch.setattr(debug_file, "DEBUG_ROOT", str(root))
    bare = here / "bare"
    shutil.copy2(here / "shop", bare)
    assert os.system(f"strip {bare}") == 0
    assert {site.function for site in sites("usdt:./bare:shop:order")} == {""}
    build_id = binary.Binary(str(here / "shop")).elf.build_id
    assert build_id is not None
    place = root / ".build-id" / build_id[:2]
    place.mkdir(parents=True)
    shutil.copy2(here / "shop", place / f"{build_id[2:]}.debug")
    assert {site.function for site in sites("usdt:./bare:shop:order")} == {"by_register", "by_stack"}


def test_nothing_is_kept_beside_a_debug_file_that_has_just_changed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long this test takes, its own files are younger than that, and libc is older.
    monkeypatch.setattr(site_cache, "SETTLED_NS", (time.time_ns() - os.stat(LIBC).st_ctime_ns) // 2)
    monkeypatch.setattr(debug_file, "DEBUG_ROOT", str(here / "debug"))
    build_id = binary.Binary(LIBC).elf.build_id
    assert build_id is not None
    place = here / "debug" / ".build-id" / build_id[:2]
    place.mkdir(parents=True)
    shutil.copy2(LIBC, place / f"{build_id[2:]}.debug")
    sites(f"uprobe:{LIBC}:malloc")
    with monkeypatch.context() as reading, pytest.raises(_Read):
        forbid_reading(reading)
        sites(f"uprobe:{LIBC}:malloc")
    (place / f"{build_id[2:]}.debug").unlink()
    cold = sites(f"uprobe:{LIBC}:malloc")
    forbid_reading(monkeypatch)
    assert sites(f"uprobe:{LIBC}:malloc") == cold


def test_names_that_could_not_be_demangled_are_not_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> NoReturn:
        raise TracerError("no demangler")

    readable = {site.function for site in sites("uprobe:./classes:_Z*")}
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    with monkeypatch.context() as without:
        without.setattr(demangle, "demangler", none)
        assert all(site.function.startswith("_Z") for site in sites("uprobe:./classes:_Z*"))
    assert {site.function for site in sites("uprobe:./classes:_Z*")} == readable


def test_another_version_of_what_resolves_reads_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites("usdt:./shop:shop:order")
    forbid_reading(monkeypatch)
    sites("usdt:./shop:shop:order")
    monkeypatch.setattr(site_cache, "_resolver", lambda: "another")
    with pytest.raises(_Read):
        sites("usdt:./shop:shop:order")


@pytest.mark.parametrize("changed", ["__init__.py", "lib/libcapstone.so"])
def test_the_disassembler_belongs_to_what_resolves(
    here: Path, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = here / "packages" / "capstone" / changed
    for name in ("__init__.py", "lib/libcapstone.so"):
        other = here / "packages" / "capstone" / name
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_bytes(b"5.0")
    importlib.import_module("capstone")  # the real one, before another stands in its place
    monkeypatch.syspath_prepend(here / "packages")
    site_cache._resolver.cache_clear()
    sites("uprobe:./funcs:main")
    file.write_bytes(b"5.0.1")
    site_cache._resolver.cache_clear()
    with monkeypatch.context() as reading, pytest.raises(_Read):
        forbid_reading(reading)
        sites("uprobe:./funcs:main")
    sites("uprobe:./funcs:main")
    forbid_reading(monkeypatch)
    sites("uprobe:./funcs:main")
    monkeypatch.undo()
    site_cache._resolver.cache_clear()


def test_the_limit_says_the_same_of_a_known_file(here: Path) -> None:
    cold = fault("uprobe:./funcs:*", limit=2)
    sites("uprobe:./funcs:*")
    assert fault("uprobe:./funcs:*", limit=2) == cold


def test_a_file_keeps_the_first_of_its_names(here: Path) -> None:
    cold = sites(f"usdt:./shop:shop:order, usdt:{here}/shop:shop:consts")
    warm = sites(f"usdt:./shop:shop:order, usdt:{here}/shop:shop:consts")
    assert warm == cold
    assert {site.probe for site in sites(f"usdt:{here}/shop:shop:order")} == {f"usdt:{here}/shop:shop:order"}


def test_files_in_which_there_is_nothing_are_known_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = f"usdt:{here}/*:order"
    cold = sites(points)
    assert {os.path.basename(site.path) for site in cold} == {"shop"}
    forbid_reading(monkeypatch)
    assert sites(points) == cold


def test_why_there_is_nothing_is_said_each_time(here: Path) -> None:
    for points in (f"usdt:{here}/*:nothing", f"uprobe:{here}/*:nothing", f"uprobe:{here}/s*:elsewhere.c:1"):
        assert fault(points) == fault(points) == fault(points)
    assert fault("usdt:./shop:nothing") == fault("usdt:./shop:nothing")
    sites("usdt:./shop:order")


def test_many_sites_are_not_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_cache, "_MOST_SITES", 1)
    sites("uprobe:./funcs:*")
    forbid_reading(monkeypatch)
    with pytest.raises(_Read):
        sites("uprobe:./funcs:*")


def test_nothing_is_kept_or_said_without_a_place_for_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = sites("usdt:./shop:shop:order")
    here.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    monkeypatch.setattr("tracer.cache._homes", lambda: [(str(here), ("tracer",))])
    assert sites("usdt:./shop:shop:order") == cold
    assert not (here / "tracer").exists()
