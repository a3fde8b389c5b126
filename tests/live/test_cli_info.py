"""`tracer info` on this host, and on ones that lack something."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.harness.cli import ROOT, tracer
from tests.live.nobody import nobody

NOBODY = nobody()
WITHOUT_BPF = (str(ROOT / "scripts" / "without-bpf"),)
# In a mount namespace of its own, so that only this run finds tracefs unmounted.
WITHOUT_TRACEFS = ("unshare", "-m", "sh", "-c", 'umount -l /sys/kernel/tracing; exec "$@"', "sh")


def info(*prefix: str) -> dict[str, Any]:
    done = tracer("info", "--json", prefix=prefix)
    assert (done.status, done.err) == (0, "")
    shown: dict[str, Any] = json.loads(done.out)
    assert list(shown) == ["kernel", "chosen", "backends", "features"]
    assert shown["kernel"] == os.uname().release
    assert list(shown["backends"]) == ["bcc", "ftrace"]
    for state in shown["backends"].values():
        assert list(state) == ["usable", "reason", "remedy"]
        assert (state["reason"] is None) == state["usable"]
    return shown


def test_both_backends_are_usable_here() -> None:
    shown = info()
    assert shown["chosen"] == "bcc"
    assert shown["backends"] == {name: {"usable": True, "reason": None, "remedy": None} for name in ("bcc", "ftrace")}


@pytest.mark.parametrize(
    "name",
    [
        "bpf",
        "btf",
        "tracefs",
        "uprobe_events",
        "hist triggers",
        "ref_ctr",
        "bpf ring buffer",
        "bpf sleepable",
        "uprobe_multi",
        "privileges",
        "libbcc",
    ],
)
def test_shows_every_feature(name: str) -> None:
    features = info()["features"]
    assert name in {key.lower() for key in features}


def test_without_bpf_ftrace_is_chosen_and_the_reason_given() -> None:
    shown = info(*WITHOUT_BPF)
    assert shown["chosen"] == "ftrace"
    bcc = shown["backends"]["bcc"]
    assert not bcc["usable"]
    assert "bpf()" in bcc["reason"]


def test_as_nobody_nothing_is_usable_and_the_remedy_is_root() -> None:
    shown = info(*NOBODY)
    assert shown["chosen"] is None
    for state in shown["backends"].values():
        assert "root" in state["reason"]
        assert state["remedy"]


def test_without_tracefs_it_still_answers() -> None:
    assert info(*WITHOUT_TRACEFS)["chosen"] == "bcc"


@pytest.mark.parametrize("prefix", [(), NOBODY, WITHOUT_BPF, WITHOUT_TRACEFS])
def test_text_shows_the_same_and_leaves_nothing(prefix: tuple[str, ...], clean: None) -> None:
    done = tracer("--info", prefix=prefix)
    assert (done.status, done.err) == (0, "")
    lines = done.text.splitlines()
    assert lines[0] == f"kernel    {os.uname().release}"
    assert lines[3] == "Backends"
    assert "Features" in lines


def test_falls_back_to_ftrace_where_there_is_no_bpf_and_says_so() -> None:
    libc = "uprobe:libc:malloc { @ = count(); }"
    done = tracer("-e", libc, "-c", "/bin/ls /", prefix=WITHOUT_BPF)
    assert done.status == 0, done.err
    first = done.err.splitlines()[0]
    assert first.startswith("tracer: using ftrace, not bcc: ")
    assert "\n@: " in done.text


def test_cleanup_needs_root_and_says_when_nothing_was_left() -> None:
    done = tracer("cleanup", prefix=NOBODY)
    assert (done.status, done.out, done.err) == (1, b"", "tracer: error: cleanup needs root; sudo tracer cleanup\n")
    tracer("cleanup")
    assert tracer("cleanup").text == "nothing was left\n"
