"""A request is what every caller makes of its options: one declaration and one set of checks, in the caller's words."""

from __future__ import annotations

import inspect
import os
from typing import Any

import pytest

import tracer
from tracer.cli import flame, run
from tracer.cli.options import Asked, flags, tracing
from tracer.errors import Source, UsageError
from tracer.tracing import PARAMETERS, Named, Prepared, Request

BEGIN = "BEGIN { exit(); }"


@pytest.mark.parametrize(
    ("given", "of_library", "of_command_line"),
    [
        (
            {"pid": 1, "command": "ls"},
            "pid and command cannot be used together; command already traces its process alone",
            "-p and -c cannot be used together; -c already traces its process alone",
        ),
        (
            {"follow": True},
            "follow needs pid or command; without them every process is traced already",
            "--follow needs -p or -c; without them every process is traced already",
        ),
        ({"pid": 0}, "pid 0: a process number is positive", "-p 0: a process number is positive"),
        ({"pid": [1, "x,"]}, "pid 1,x,: a number or a name is missing", "-p 1,x,: a number or a name is missing"),
        ({"pid": []}, "pid : a number or a name is missing", "-p : a number or a name is missing"),
        (
            {"children": True},
            "children needs pid; without it every process is traced already",
            "--children needs -p; without it every process is traced already",
        ),
        (
            {"children": True, "command": "ls"},
            "children needs pid; follow traces what command starts",
            "--children needs -p; --follow traces what -c starts",
        ),
        (
            {"max_rate": 0},
            "max_rate 0: a limit is positive; it counts hits a second",
            "--max-rate 0: a limit is positive; it counts hits a second",
        ),
        (
            {"duration_s": 0.0},
            "duration 0.0: no length of time; it is in seconds",
            "--duration 0.0: no length of time; it is in seconds",
        ),
        (
            {"backend": "bpf"},
            "no backend bpf; there are bcc, ftrace",
            "no backend bpf; there are bcc, ftrace",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_in_the_words_of_who_asks(
    given: dict[str, Any], of_library: str, of_command_line: str
) -> None:
    def said(named: Named) -> str:
        with pytest.raises(UsageError) as caught:
            Prepared(Request(Source(BEGIN), **given), named)
        return "; ".join(filter(None, (caught.value.message, caught.value.hint)))

    assert (said(PARAMETERS), said(flags())) == (of_library, of_command_line)
    with pytest.raises(UsageError) as caught:
        tracer.trace(BEGIN, **{name.removesuffix("_s"): value for name, value in given.items()})
    assert of_library.startswith(caught.value.message)


@pytest.mark.parametrize("command", [run.command, flame.command], ids=["run", "flame"])
def test_a_command_that_traces_has_the_shared_options_and_adds_its_own(command: Any) -> None:
    names = list(inspect.signature(command).parameters)
    assert names[: len(Asked.__annotations__)] == list(Asked.__annotations__)
    own = {
        "run": [
            "words", "format", "stacks", "output", "also", "buffering", "raw", "failed_reads", "stage", "dry_run",
            "fmt",
        ],
        "flame": [
            "files", "output", "also", "probes", "weight", "by", "where", "show", "stacks", "maps", "compare", "title",
            "unit", "kernel",
        ],
    }
    module = "run" if command is run.command else "flame"
    assert set(names[len(Asked.__annotations__) :]) - {"unwound"} == set(own[module])


def test_a_new_command_gets_the_request_from_one_line() -> None:
    found = []

    @tracing
    def command(asked: Asked, words: list[str]) -> int:
        """Something new."""
        with asked.prepared(*asked.source(words)) as prepared:
            found.append(prepared.request)
        return 3

    options = {name: getattr(Asked, name) for name in Asked.__annotations__}
    options |= {
        "expression": BEGIN, "child": "ls -l", "follow": True, "duration": "500ms", "max_rate": 7, "backend": "bcc",
        "max_probes": 8, "unsafe": True, "no_priority": True, "by_hand": True, "quiet": True, "verbose": True,
    }  # fmt: skip
    assert command(words=["a", "b"], **options) == 3
    assert command.__doc__ == "Something new."
    assert found == [
        Request(
            Source(BEGIN), ["a", "b"], None, "ls -l", True, False, "bcc", {"max_probes": "8", "unsafe": "true"},
            os.environ, True, 7, False, 0.5, True, True,
        )
    ]


def test_a_request_comes_to_a_compiled_program_and_between_the_plan_is_shown() -> None:
    shown = []
    request = Request(Source(BEGIN), command=("true", "x"), max_rate=3, priority=False)
    with Prepared(request) as prepared:
        compiled = prepared.compile(lambda plan, warnings: shown.append((plan, warnings)))
    assert shown == [(compiled.plan, [])] and prepared.compiled is compiled
    assert (compiled.plan.separate_points, compiled.plan.priority) == (True, False)
    assert prepared.argv == ("true", "x")
    assert (prepared.target.pids, os.path.basename(prepared.target.program or ""), prepared.target.follow) == (
        (), "true", False,
    )  # fmt: skip
    assert prepared.dump("ast").startswith("clause 0\n  begin\n")


def test_a_process_is_held_until_the_request_is_closed() -> None:
    with Prepared(Request(Source(BEGIN), pid=os.getpid())) as prepared:
        assert prepared.processes is not None and prepared.target.pids == (os.getpid(),)
        (process,) = prepared.processes.members
        assert os.fstat(process.pidfd)
    assert process.pidfd == -1
