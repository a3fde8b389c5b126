"""Which command a line means."""

from __future__ import annotations

import pytest
import typer.main

from tracer.cli.app import application
from tracer.cli.arguments import WITH_WORD, as_command, near_option


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ([], ["--help"]),
        (["-h"], ["-h"]),
        (["--help"], ["--help"]),
        (["-e", "BEGIN { }"], ["run", "-e", "BEGIN { }"]),
        (["run", "-e", "x"], ["run", "-e", "x"]),
        (["script.bt", "1", "-l"], ["run", "script.bt", "1", "-l"]),
        (["-", "x"], ["run", "-", "x"]),
        (["-l"], ["list"]),
        (["-l", "usdt:*"], ["list", "usdt:*"]),
        (["--list", "usdt:*"], ["list", "usdt:*"]),
        (["-lv", "usdt:*"], ["list", "-v", "usdt:*"]),
        (["-vl"], ["list", "-v"]),
        (["-p", "7", "-l"], ["list", "-p", "7"]),
        (["-v", "-l", "usdt:*", "--json"], ["list", "-v", "usdt:*", "--json"]),
        (["-l", "-e", "BEGIN { }"], ["list", "-e", "BEGIN { }"]),
        (["-e", "BEGIN { }", "-l"], ["list", "-e", "BEGIN { }"]),
        (["--cmd", "ls", "-l"], ["list", "--cmd", "ls"]),
        (["--info"], ["info"]),
        (["--info", "--json"], ["info", "--json"]),
        (["--json", "--info"], ["info", "--json"]),
        (["--version"], ["--version"]),
        (["-V"], ["--version"]),
        (["-e", "-l"], ["run", "-e", "-l"]),
        (["--", "-l"], ["run", "--", "-l"]),
        (["--bakend", "bcc"], ["run", "--bakend", "bcc"]),
        (["list", "-v"], ["list", "-v"]),
    ],
)
def test_means_the_command(line: list[str], meant: list[str]) -> None:
    assert as_command(line) == meant


def test_finds_the_option_that_was_probably_meant() -> None:
    assert near_option("--bakend", ["--backend", "--format"]) == "--backend"
    assert near_option("--dryrun", ["--dry-run", "--format"]) == "--dry-run"
    assert near_option("--xyzzy", ["--dry-run", "--format"]) is None


def test_the_options_that_take_a_word_are_those_of_the_commands() -> None:
    commands = typer.main.get_group(application(["run", "list"])).commands.values()
    options = [each for command in commands for each in command.params if each.param_type_name == "option"]
    assert {name for each in options if not getattr(each, "is_flag", False) for name in each.opts} == WITH_WORD
