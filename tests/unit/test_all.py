"""`scripts/test`: what it starts, and that each failure is its own; what the whole consists of is test_streams.py's.

In a tree where the programs that it starts only say what they were asked.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PYTHON = """#!/bin/sh
echo "python $*"
case "$*" in *"$FAILS"*) exit 3 ;; esac
"""
VM = """#!/bin/sh
case "$*" in --help) case "$FAILS" in vm) exit 1 ;; *) exit 0 ;; esac ;; esac
echo "vm $*"
case "vm $*" in *"$FAILS"*) exit 1 ;; esac
"""


def ended(root: Path, *words: str, fails: str = "nothing", ci: str = "") -> tuple[int, list[str]]:
    (root / "scripts").mkdir()
    (root / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "test", root / "scripts" / "test")
    (root / "scripts" / "set-up.sh").touch()
    for path, text in ((root / ".venv" / "bin" / "python", PYTHON), (root / "scripts" / "vm", VM)):
        path.write_text(text)
        path.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "FAILS": fails, "CI": ci}
    done = subprocess.run([root / "scripts" / "test", *words], env=environment, capture_output=True, text=True)
    return done.returncode, [line for line in done.stdout.splitlines() if "ruff" not in line and "mypy" not in line]


ALL = ["python -m tests.streams --machines"]


def test_everything_is_run(tmp_path: Path) -> None:
    assert ended(tmp_path) == (0, ALL)


def test_what_fails_there_is_its_failure(tmp_path: Path) -> None:
    assert ended(tmp_path, fails="-m tests.streams") == (3, ALL)


@pytest.mark.parametrize(("ci", "status", "started"), [("", 0, ["python -m tests.streams"]), ("true", 1, [])])
def test_where_no_machine_can_run_it_goes_on_without_but_not_in_ci(
    tmp_path: Path, ci: str, status: int, started: list[str]
) -> None:
    assert ended(tmp_path, fails="vm", ci=ci) == (status, started)


def test_what_ruff_refuses_is_not_tested(tmp_path: Path) -> None:
    assert ended(tmp_path, fails="-m ruff") == (3, [])


def test_with_arguments_there_is_one_pytest_and_no_machine(tmp_path: Path) -> None:
    assert ended(tmp_path, "tests/unit", "-x") == (0, ["python -m pytest --durations=20 tests/unit -x"])


def test_with_arguments_what_mypy_refuses_is_not_tested(tmp_path: Path) -> None:
    assert ended(tmp_path, "tests/unit", fails="-m mypy") == (3, [])
