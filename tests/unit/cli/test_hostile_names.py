"""No name of a file, a function or a probe steers the terminal, whatever is asked of the file that has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.unit.resolve.hostile import NAMES, steering, write_hostile
from tracer.choices import STAGES
from tracer.resolve.attach_texts import in_quotes


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_hostile(tmp_path)
    return tmp_path


def check(*words: str) -> str:
    """What the command printed and said, which steers nothing and is no traceback."""
    done = tracer(*words)
    text = done.out.decode() + done.said
    assert steering(text) == set(), words
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize("words", [("list",), ("list", "-v"), ("list", "--json"), ("-l",)], ids=" ".join)
def test_lists(files: Path, words: tuple[str, ...]) -> None:
    text = check(*words, f"uprobe:{files}/*:*") + check(*words, f"usdt:{files}/*:*")
    assert text.count("end*/ int x;") >= 4
    if "--json" in words:
        listed = [json.loads(line) for line in text.splitlines()]
        names = {each.name for each in files.iterdir() if each.is_file()}
        assert {each["path"] for each in listed} == {f"{files}/{in_quotes(name)}" for name in names}
    elif words == ("list",):
        assert len(text.splitlines()) == 4 * len(NAMES)
    check(*words, str(next(each for each in files.iterdir() if "\n" in each.name)))


@pytest.mark.parametrize("kind", ["uprobe:{}/*:*", "usdt:{}/*:*:*", "uretprobe:{}/*:*"])
@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_dumps_and_what_would_be_done(files: Path, kind: str, backend: str) -> None:
    program = kind.format(files) + " { @[func, probe] = count(); }"
    text = check("--dry-run", "--backend", backend, "-e", program)
    assert "\\x1b[31mred" in text and "sites: " in text
    for stage in STAGES:
        check("-d", stage, "--backend", backend, "-e", program)


@pytest.mark.parametrize(
    "point",
    ["uprobe:{}/*:nope", "usdt:{}/*:nope:*", "uprobe:{}/plain:nope.c:3", "uprobe:{}/plain:tab+9", "uprobe:{}/f*:0x1999",
     "usdt:{}/plain:back", "uprobe:{}/plain:esc", "uprobe:{}/\x1b[31mred:f", "uprobe:{}/plain:\u202ef"],
)  # fmt: skip
def test_errors(files: Path, point: str) -> None:
    assert "error: " in check("-e", point.format(files) + " { }")


def test_a_program_s_own_text_in_a_dump(files: Path) -> None:
    program = f'uprobe:"{files}/plain":tab* {{ printf("\x1b[31m%s", "\u202e"); }} // \x1b'
    for stage in STAGES:
        check("-d", stage, "-e", program)
    check("--dry-run", "-e", program)
