"""The commands that the pages show, run as they stand there: what comes out is what the page says.

A command is an indented line that begins with `$ `, with the lines that close its quotes; its output follows. Commands
that need a server or a Ctrl-C are left to the other tests.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE, PATIENCE_S, ROOT, tracer, without_blanks
from tests.live.conftest import need
from tests.targets.build import build

pytestmark = pytest.mark.live

PAGES = (
    "README.md", "docs/guide.md", "docs/commands.md", "docs/language.md", "docs/backends.md", "docs/python.md",
    "docs/how-it-works.md", "docs/perf-tools.md",
)  # fmt: skip


PROGRAMS = {"spin": "shares", "tally": "tally"}
"""Programs of the pages, and the targets that they are."""


@dataclass(frozen=True)
class Shown:
    """A command of a page, and the output that stands under it."""

    page: str
    command: str
    output: str

    @property
    def needs_more(self) -> bool:
        """Whether something else has to happen for that output."""
        return "^C" in self.output or re.search("^[A-Z]=| -p ", self.command) is not None

    @property
    def is_exact(self) -> bool:
        """Whether the output is the same on every machine."""
        return "BEGIN {" in self.command and " -c " not in self.command


def shown(page: str) -> list[Shown]:
    """The commands of a page in their order."""
    found: list[Shown] = []
    for block in _blocks((ROOT / page).read_text()):
        lines = block.splitlines()
        while lines:
            line = lines.pop(0)
            if not line.startswith("$ "):
                continue
            command = line.removeprefix("$ ")
            while not _is_closed(command) and lines:
                command += "\n" + lines.pop(0)
            output = []
            while lines and not lines[0].startswith("$ "):
                output.append(lines.pop(0))
            found.append(Shown(page, command, "\n".join(output)))
    return found


def _blocks(text: str) -> Iterator[str]:
    """What is indented by four columns or more, blank lines inside included, without the indentation."""
    for block in re.findall(r"(?m)(?:^ {4,}.*\n(?:\n+(?= {4}))?)+", text):
        margin = min(len(line) - len(line.lstrip()) for line in block.splitlines() if line.strip())
        yield "\n".join(line[margin:] for line in block.splitlines())


def _is_closed(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


def shape(text: str, ordered: bool) -> list[str]:
    """The lines, with a letter for each number, path and bar; lines that then follow their like are left out."""
    text = re.sub(r"0x[0-9a-f]+", "X", text)
    text = re.sub(r"\|[@ ]*\|", "||", text)
    text = re.sub(r" +[0-9.]+ [num]?s\b", " T", text)
    text = re.sub(r"\b[0-9]+[KMG]?\b", "N", text)
    text = re.sub(r" +(\[?N)", r" \1", re.sub(r"\[N\]", "[N, N)", text))
    text = re.sub(r"N +", "N ", text)
    text = re.sub(r"reads /\S+", "reads PATH", text)
    lines = text.strip("\n").splitlines()
    if not ordered:
        lines.sort()
    return [line for index, line in enumerate(lines) if index == 0 or line != lines[index - 1]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with the programs of the pages, and with `sudo` and `tracer` for the PATH of a command. `python -I`
    keeps the traced programs' own environment as it is.
    """
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tracer.__main__ import main; sys.exit(main())"
    python = shlex.quote(sys.executable)
    for name, line in (("sudo", 'env "$@"'), ("tracer", f'{python} -I -c {shlex.quote(start)} "$@"')):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nexec {line}\n")
        path.chmod(0o755)
    for name, target in PROGRAMS.items():
        shutil.copy(build(target), tmp_path / name)
    return tmp_path


def run(command: str, home: Path) -> str:
    """Runs a command as a shell does; its two outputs, without "Attached …" and the blank lines before the maps."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_"))}
    environment |= {"LANG": "C.UTF-8", "PATH": f"{home}/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=home,
        env=environment,
        timeout=PATIENCE_S * PATIENCE,
        text=True,
    )
    printed = without_blanks(done.stdout.encode()).decode()
    return "".join(line for line in printed.splitlines(True) if not re.fullmatch(r"Attached \d+ probes?\n", line))


@pytest.mark.parametrize("page", PAGES)
def test_commands_give_what_the_page_shows(page: str, home: Path, clean: None) -> None:
    for one in shown(page):
        if one.needs_more:
            continue
        for file in re.findall(r"/usr/bin/[\w.]+", one.command):
            need(os.path.exists(file), file)
        if source := re.fullmatch(r"cat ([\w.]+)", one.command):
            (home / source[1]).write_text(one.output + "\n")
        out = run(one.command, home)
        if "profile" in one.command:  # a sample can come where a program begins
            out = re.sub(r"^tracer: stacks that do not reach the program's start: .*\n", "", out, flags=re.M)
        if one.is_exact:
            assert out.rstrip("\n") == one.output.rstrip("\n"), one.command
        else:
            # The traced program prints too, when it likes; and which of two calls takes longer depends.
            ordered = not re.search("printf|syscalls", one.command)
            assert shape(out, ordered) == shape(one.output, ordered), one.command


def test_the_commands_are_found() -> None:
    found = {page: shown(page) for page in PAGES}
    readme = [one for one in found["README.md"] if "tracer -e" in one.command]
    assert [one.needs_more for one in readme] == [True, True, False, False, False]
    assert readme[2].output.splitlines()[-1] == "@[parse]: 508"
    assert [one.needs_more for one in found["docs/language.md"]] == [False] * 10 + [True, True]
    those = [one for one in found["docs/language.md"] if "BEGIN" in one.command]
    assert all(one.is_exact for one in those)
    waiting = [one.needs_more for one in found["docs/backends.md"]]
    assert waiting == [False, False, False, True, False, True, False, False]


SPANS = re.findall(
    r"`((?:config = \{[^}]*\} )?(?:uprobe|uretprobe|usdt|call|tracepoint|profile|hardware):[^`]*\{[^`…]*\})`",
    (ROOT / "docs/peers.md").read_text(),
)
LINES = [line.replace("\\|", "|") for line in SPANS if "FILE" not in line]


def test_the_page_for_those_who_come_from_elsewhere_has_lines() -> None:
    assert len(LINES) >= 15


@pytest.mark.parametrize("line", LINES)
def test_a_line_for_those_who_come_from_elsewhere_is_right(line: str) -> None:
    done = tracer("check", "-e", line)
    assert (done.status, done.out) == (0, b""), done.err
