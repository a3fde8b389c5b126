"""Stacks with the functions that were inlined and lines of source, as far as debug information knows them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.targets.build import HERE

pytestmark = pytest.mark.live

SOURCE = str(HERE / "inlines.c")
ROUNDS = 20


def lines(text: str) -> list[str]:
    return [line.strip().replace(SOURCE, "SOURCE") for line in text.splitlines() if line.strip()]


def test_inlined_functions_are_frames_with_their_lines(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    program = place("inlines")
    text = f"config = {{ show_debug_info = true }} uprobe:{program}:leaf {{ @[ustack(3)] = count(); }}"
    done = tracer("-q", "--backend", backend, "-f", "json", "-e", text, "-c", f"{program} {ROUNDS}")
    assert (done.status, done.err) == (0, "")
    ((stack, count),) = maps(done)["@"].items()
    assert count == ROUNDS
    assert [re.sub(r"\+\d+@", "@", line) for line in lines(stack)] == [
        "leaf@SOURCE:5",
        "[inlined] inner@SOURCE:8",
        "[inlined] middle@SOURCE:13",
        "outer@SOURCE:17",
        "main@SOURCE:24",
    ]


def test_perfs_way_names_what_was_inlined_and_no_lines(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    program = place("inlines")
    text = f"uprobe:{program}:leaf {{ print(ustack(perf, 2)); exit(); }}"
    done = tracer("-q", "--backend", backend, "-e", text, "-c", f"{program} {ROUNDS}",
                  env={**os.environ, "BPFTRACE_SHOW_DEBUG_INFO": "1"})  # fmt: skip
    found = [line.split(" ", 1)[1] for line in done.out.decode().splitlines() if line.startswith("\t")]
    assert [each.rpartition(" ")[0].partition("+")[0] for each in found] == ["leaf", "inner", "middle", "outer"]
    assert [each.rpartition(" ")[2] for each in found[1:3]] == ["(inlined)"] * 2


def test_without_being_asked_stacks_are_as_they_were(backend: str, place: Callable[[str], Path], clean: None) -> None:
    program = place("inlines")
    text = f"uprobe:{program}:leaf {{ print(ustack(2)); exit(); }}"
    done = tracer("-q", "--backend", backend, "-e", text, "-c", f"{program} {ROUNDS}")
    found = [line.strip() for line in done.out.decode().splitlines() if line.startswith(" ")]
    assert [each.partition("+")[0] for each in found] == ["leaf", "outer"]
    assert all("@" not in each for each in found)


def test_copies_that_are_not_counted_are_said(backend: str, place: Callable[[str], Path]) -> None:
    """With their number, by a command as by its program; and not where they are counted."""
    path = place("silent")
    for words in (("count", f"{path}:twice"), ("-e", f"uprobe:{path}:twice {{ @ = count(); }}")):
        said = tracer(*words, "-d", "1ms", "--backend", backend).said
        assert "warning: twice was also inlined at 3 places (in bake and shop): calls there are no hits; conf" in said
    timed = tracer("latency", f"{path}:twice", "-d", "1ms", "--backend", backend).said
    assert "twice was also inlined at 3 places (in bake and shop): calls there are no hits\n" in timed
    counted = f"config = {{ inlined = true }} uprobe:{path}:twice {{ @ = count(); }}"
    assert "also inlined" not in tracer("-e", counted, "-d", "1ms", "--backend", backend).said
