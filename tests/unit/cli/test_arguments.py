"""Which command a line means."""

from __future__ import annotations

import pytest
import typer.main

from tracer.cli.app import application
from tracer.cli.arguments import FOR_A_TRACE, WITH_WORD, as_command, names_stage_of_bpftrace, near_option, options_of


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ([], ["--help"]),
        (["-h"], ["-h"]),
        (["--help"], ["--help"]),
        (["-e", "BEGIN { }"], ["run", "-e", "BEGIN { }"]),
        (["run", "-e", "x"], ["run", "-e", "x"]),
        (["script.bt", "1", "-l"], ["list", "script.bt", "1"]),
        (["script.bt", "--", "-l"], ["run", "script.bt", "--", "-l"]),
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
        (["-lve", "BEGIN { }"], ["list", "-v", "-e", "BEGIN { }"]),
        (["-vlp", "7"], ["list", "-v", "-p", "7"]),
        (["-qlp7", "usdt:*"], ["list", "-p7", "usdt:*"]),
        (["-l", "-q", "-f", "json", "-o", "x", "-B", "full", "-k", "usdt:*"], ["list", "usdt:*"]),
        (["-d", "ast", "-l", "-c", "ls", "x.bt"], ["list", "-c", "ls", "x.bt"]),
        (["-l", "--format=json", "--cmd=ls", "x.bt"], ["list", "--cmd=ls", "x.bt"]),
        (["-d", "5", "x.bt"], ["run", "--duration", "5", "x.bt"]),
        (["-qd500ms", "x.bt"], ["run", "-q", "--duration", "500ms", "x.bt"]),
        (["run", "-d", "30s", "-e", "BEGIN { }"], ["run", "--duration", "30s", "-e", "BEGIN { }"]),
        (["-d", "steps", "x.bt"], ["run", "-d", "steps", "x.bt"]),
        (["x.bt", "--", "-d", "5"], ["run", "x.bt", "--", "-d", "5"]),
        (["-l", "-d", "5", "usdt:*"], ["list", "usdt:*"]),
        (["--fmt", "-l", "x.bt"], ["run", "--fmt", "x.bt"]),
        (["-l", "--info"], ["info"]),
        (["x.bt", "--info", "-v"], ["info"]),
        (["x.bt", "-V"], ["--version"]),
        (["-l", "--bogus"], ["list", "--bogus"]),
    ],
)
def test_means_the_command(line: list[str], meant: list[str]) -> None:
    assert as_command(line) == meant


@pytest.mark.parametrize("before", [["--backend", "ftrace"], ["--backend=bcc"]])
@pytest.mark.parametrize(
    ("line", "meant", "given"),
    [
        ([], ["--help"], False),
        (["-h"], ["-h"], False),
        (["--version"], ["--version"], False),
        (["-V"], ["--version"], False),
        (["--info"], ["info"], True),
        (["--info", "--json"], ["info", "--json"], True),
        (["-l", "usdt:*"], ["list", "usdt:*"], True),
        (["usdt:*", "-lv"], ["list", "usdt:*", "-v"], True),
        (["-q", "script.bt", "1"], ["run", "-q", "script.bt", "1"], True),
        (["list", "-v", "usdt:*"], ["list", "-v", "usdt:*"], True),
        (["flame", "-e", "x"], ["flame", "-e", "x"], True),
        (["info"], ["info"], True),
        (["check", "script.bt"], ["check", "script.bt"], False),
        (["cleanup"], ["cleanup"], False),
        (["demo"], ["demo"], False),
    ],
)
def test_a_backend_in_front_as_of_an_alias_changes_nothing_of_what_the_line_means(
    before: list[str], line: list[str], meant: list[str], given: bool
) -> None:
    assert as_command([*before, *line]) == [meant[0], *(before if given else ()), *meant[1:]]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (["-qv", "x"], {"-q", "-v", ""}),
        (["-qe", "-v"], {"-q", "-e"}),
        (["--format", "-q", "--quiet"], {"--format", "--quiet"}),
        (["x", "--", "-q"], {"", "--"}),
    ],
)
def test_an_option_is_given_by_a_letter_among_others_and_not_by_the_word_of_another(
    line: list[str], options: set[str]
) -> None:
    assert options_of(line) == options


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (["-d", "types"], True),
        (["-ddis"], True),
        (["-d", "ast,codegen"], True),
        (["--debug=all"], True),
        (["-d", "asd"], False),
        (["-d", "p.bt"], False),
        (["-d"], False),
        (["-e", "types"], False),
    ],
)
def test_knows_the_stages_of_bpftrace(line: list[str], named: bool) -> None:
    assert names_stage_of_bpftrace(line) == named


def test_finds_the_option_that_was_probably_meant() -> None:
    assert near_option("--bakend", ["--backend", "--format"]) == "--backend"
    assert near_option("--dryrun", ["--dry-run", "--format"]) == "--dry-run"
    assert near_option("--xyzzy", ["--dry-run", "--format"]) is None


def test_a_list_takes_every_option_of_run_or_ignores_it() -> None:
    commands = typer.main.get_group(application(["run", "list"])).commands
    run, listing = ({name for each in commands[of].params for name in each.opts} for of in ("run", "list"))
    assert {name for name in run - listing if name.startswith("-")} == FOR_A_TRACE | {"--fmt"}


def test_the_options_that_take_a_word_are_those_of_the_commands() -> None:
    commands = typer.main.get_group(application(["run", "list"])).commands.values()
    options = [each for command in commands for each in command.params if each.param_type_name == "option"]
    assert {name for each in options if not getattr(each, "is_flag", False) for name in each.opts} == WITH_WORD
