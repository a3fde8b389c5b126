"""A sample of what `scripts/attack/variables` compares: each variable as gdb reads it and at the place that we have."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from scripts.attack.variables import by_gdb, places, recorded
from tests.targets.build import build

_ALLOWED = {"equal", "refused", "neither", "gdb reads too early", "gdb does not read it"}


@pytest.mark.parametrize("name", ["variables-O0", "variables-O2"])
def test_values_equal_those_of_gdb(name: str, tmp_path: Path) -> None:
    path = str(build(name))
    found = by_gdb(path, places(path, lambda source: source.endswith("variables.c")), 2, str(tmp_path))
    assert [each for each in found if each["result"] not in _ALLOWED] == []
    counts = Counter(each["result"] for each in found)
    assert counts["equal"] > 150


def test_values_whose_types_dwz_moved_to_another_file_equal_those_of_gdb(tmp_path: Path) -> None:
    programs = [tmp_path / name / "variables" for name in ("one", "two")]
    for program, name in zip(programs, ("variables-O0", "variables-O2"), strict=True):
        program.parent.mkdir()
        shutil.copy(build(name), program)
    common = tmp_path / "common"
    subprocess.run(["dwz", "-m", str(common), *map(str, programs)], check=True)
    assert b".gnu_debugaltlink" in programs[0].read_bytes()
    for number, program in enumerate(programs):
        folder = tmp_path / str(number)
        folder.mkdir()
        marked = places(str(program), lambda source: source.endswith("variables.c"))
        found = by_gdb(str(program), marked, 2, str(folder))
        assert [each for each in found if each["result"] not in _ALLOWED] == []
        assert Counter(each["result"] for each in found)["equal"] > 150


@pytest.mark.parametrize(("compiler", "level"), [("clang", "0"), ("gcc", "2")])
def test_values_are_what_a_random_program_records_of_itself(compiler: str, level: str, tmp_path: Path) -> None:
    found = recorded(64, compiler, level, str(tmp_path))
    assert [each for each in found if each["result"] not in (*_ALLOWED, "not comparable")] == []
    assert Counter(each["result"] for each in found)["equal"] > 100
