"""`scripts/test`: what it starts, and that each failure is its own.

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
case "$*" in --help) exit 0 ;; esac
echo "vm $*"
case "vm $*" in *"$FAILS"*) exit 1 ;; esac
"""


def ended(root: Path, *words: str, fails: str = "nothing") -> tuple[int, list[str]]:
    (root / "scripts").mkdir()
    (root / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "test", root / "scripts" / "test")
    (root / "scripts" / "set-up.sh").touch()
    for path, text in ((root / ".venv" / "bin" / "python", PYTHON), (root / "scripts" / "vm", VM)):
        path.write_text(text)
        path.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "FAILS": fails, "TMPDIR": str(root)}
    done = subprocess.run([root / "scripts" / "test", *words], env=environment, capture_output=True, text=True)
    assert not list(root.glob("tmp.*"))
    return done.returncode, [line for line in done.stdout.splitlines() if "ruff" not in line and "mypy" not in line]


ALL = ["python -m pytest -m live", "python -m pytest -p no:cacheprovider -m not live", "vm test --quick"]


def test_everything_is_run_and_shown(tmp_path: Path) -> None:
    assert ended(tmp_path) == (0, ALL)


@pytest.mark.parametrize(("fails", "status"), [("-m live", 3), ("-m not live", 1), ("vm test", 1)])
def test_whatever_fails_is_its_failure(tmp_path: Path, fails: str, status: int) -> None:
    assert ended(tmp_path, fails=fails) == (status, ALL)


@pytest.mark.parametrize("fails", ["-m ruff", "-m mypy"])
def test_what_ruff_and_mypy_refuse_is_not_tested(tmp_path: Path, fails: str) -> None:
    assert ended(tmp_path, fails=fails) == (3, [])


def test_with_arguments_there_is_one_pytest_and_no_machine(tmp_path: Path) -> None:
    assert ended(tmp_path, "tests/unit", "-x") == (0, ["python -m pytest tests/unit -x"])
