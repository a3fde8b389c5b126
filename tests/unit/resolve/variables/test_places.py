"""Where variables are at a place of the code: in scope, where, or why not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import FrameType

import pytest

from tests.targets.build import HERE, build
from tracer.kinds.model import AttachPoint, SiteLimit
from tracer.kinds.site import FileIdentity, FileSite
from tracer.lang.types.outside import Lines, Local
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.units.debug_entries import entries_of
from tracer.resolve.elf.file import Elf
from tracer.resolve.sites.line_sites import line_sites
from tracer.resolve.variables.expressions import OPTIMISED_OUT
from tracer.resolve.variables.places import Variables

TEXT = (HERE / "variables.c").read_text().split("\n")
FRAME = "in the frame"


def number(mark: str) -> int:
    (found,) = [line for line, text in enumerate(TEXT, 1) if f"/* {mark} */" in text]
    return found


def sites(path: Path, mark: str, source: str = "variables.c") -> list[FileSite]:
    point = AttachPoint("uprobe", "", None, str(path), source=source, line=number(mark))  # type: ignore[arg-type]
    return line_sites(point, Binary(str(path)), SiteLimit(99, 99), [])


def inside(path: Path, function: str, offset: int) -> FileSite:
    (found,) = Binary(str(path)).symbols.named(function)
    probe = f"uprobe:{path}:{function}+{offset}"
    return FileSite("uprobe", probe, function, (), 0, str(path), FileIdentity(0, 0, 0, 0), found.address + offset, 0)


def known(path: Path, site: FileSite) -> tuple[Local, ...]:
    entries = entries_of(Elf(str(path)), keep=True)
    assert entries is not None
    found = Variables(str(path), entries, "file").locals_at(site)
    assert isinstance(found, tuple)
    return found


def shown(path: Path, site: FileSite) -> dict[str, str]:
    """Those that names mean: where they are in short, or why they cannot be read."""
    return {each.name: each.reason or _place(each) for each in known(path, site) if not each.hidden}


def _place(local: Local) -> str:
    (piece,) = local.pieces
    if not piece.memory:
        return str(piece.tree[1]) if piece.tree[0] in ("reg", "const") else "computed"
    return "of the file" if piece.tree[0] == "here" else FRAME


def compiled(folder: Path, *words: str) -> Path:
    subprocess.run([*words, str(HERE / "variables.c"), "-o", str(folder / "app")], check=True)
    return folder / "app"


def test_of_unoptimised_code_all_that_was_declared_is_in_the_frame() -> None:
    path = build("variables-O0")
    (site,) = sites(path, "add")
    assert shown(path, site) == {
        **dict.fromkeys(("k", "i", "it", "n", "c", "total"), FRAME), "calls": "of the file", "rate": "not yet there",
    }  # fmt: skip


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_in_the_prologue_parameters_are_where_they_were_passed_and_locals_not_there(
    compiler: str, tmp_path: Path
) -> None:
    path = compiled(tmp_path, compiler, "-O0", "-g", "-w")
    passed = {"it": "di", "n": "si", "c": "dx", "calls": "of the file", "total": "not yet there"}
    passed["rate"] = passed["total"]
    for offset in (0, 1, 4):  # push rbp; mov rbp, rsp
        assert shown(path, inside(path, "price", offset)) == passed
    (site,) = sites(path, "called")
    assert {name: shown(path, site)[name] for name in ("it", "n", "c", "total")} == dict.fromkeys(
        ("it", "n", "c", "total"), FRAME
    )


def test_a_variable_is_not_there_where_it_is_declared() -> None:
    path = build("variables-O0")
    (site,) = sites(path, "first")
    assert shown(path, site)["total"] == "not yet there"


def test_the_innermost_of_a_name_is_meant_once_it_is_declared() -> None:
    path = build("variables-O0")
    (site,) = sites(path, "inner")
    both = [each for each in known(path, site) if each.name == "total"]
    assert [(each.hidden, each.line, each.level) for each in both] == [(False, 30, 0), (True, 23, 0)]
    assert both[0].pieces != both[1].pieces


def test_of_an_inlined_copy_its_own_variables_come_before_its_callers() -> None:
    path = build("variables-O2")
    first, second = sites(path, "sell")
    for site in (first, second):
        found = known(path, site)
        assert {(each.name, each.function, each.level) for each in found[:2]} == {
            ("count", "sell", 0), ("what", "sell", 0)
        }  # fmt: skip
        assert {(each.function, each.level) for each in found[2:]} == {("price", 1)}
    assert shown(path, first)["count"] != shown(path, second)["count"]


def test_what_was_passed_and_overwritten_is_refused(tmp_path: Path) -> None:
    path = compiled(tmp_path, "gcc", "-O1", "-g", "-w")
    (site,) = sites(path, "end")
    assert shown(path, site)["it"] == "passed in di and overwritten"
    assert shown(path, site)["total"] == OPTIMISED_OUT


def test_the_nearest_lines_where_it_can_be_read_are_known() -> None:
    path = build("variables-O0")
    entries = entries_of(Elf(str(path)), keep=True)
    assert entries is not None
    (site,) = sites(path, "first")
    assert Variables(str(path), entries, "file").readable(site, "total") == Lines("variables.c:23", 0, 25)


@pytest.mark.parametrize("flags", ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-gsplit-dwarf",
                                   "-gdwarf-4 -gsplit-dwarf", "-fdebug-types-section", "-flto"])  # fmt: skip
def test_each_form_of_debug_information_says_the_same(flags: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, "gcc", "-O0", "-g", *flags.split(), "-w")
    (site,) = sites(path, "mixed")
    assert shown(path, site) == dict.fromkeys(("a", "b", "p", "word", "few", "c"), FRAME)


def test_a_large_function_is_looked_at_once_for_all_its_lines(tmp_path: Path) -> None:
    """Each place once took time that grew with the function: six seconds each in CPython's interpreter loop."""
    blocks = "".join(f"  {{ int b{number} = n + {number}; s += b{number} * n; }}\n" for number in range(400))
    source = tmp_path / "large.c"
    text = f"int large(int n)\n{{\n  int s = 0;\n{blocks}  return s;\n}}\n"
    source.write_text(f"{text}int main(void) {{ return large(2); }}\n")
    path = tmp_path / "large"
    subprocess.run(["gcc", "-O0", "-g", "-o", path, source], check=True)
    entries = entries_of(Elf(str(path)), keep=True)
    assert entries is not None
    variables = Variables(str(path), entries, "file")
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    binary = Binary(str(path))
    numbers = range(4, 404)
    places = []
    for line in numbers:
        point = AttachPoint("uprobe", "", None, str(path), source="large.c", line=line)  # type: ignore[arg-type]
        places += line_sites(point, binary, SiteLimit(99, 99), [])
    sys.setprofile(count)
    try:
        found = [variables.locals_at(site) for site in places]
    finally:
        sys.setprofile(None)
    assert len(places) == len(numbers)
    names = [{each.name for each in one or ()} for one in found]
    assert [sorted(each) for each in names[:2]] == [["b0", "n", "s"], ["b1", "n", "s"]]
    assert calls < 30_000 * len(places), calls / len(places)  # 194,000 where each place looks at all blocks
