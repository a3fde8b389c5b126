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
    assert list(shown) == ["kernel", "chosen", "backends", "features", "constructs"]
    assert shown["kernel"] == os.uname().release
    assert list(shown["backends"]) == ["bcc", "ftrace"]
    for state in shown["backends"].values():
        assert list(state) == ["usable", "reason", "remedy"]
        assert (state["reason"] is None) == state["usable"]
    for row in shown["constructs"].values():
        assert list(row) == ["bcc", "ftrace"]
        assert all(list(each) == ["state", "note", "remedy"] for each in row.values())
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


def test_constructs_say_what_the_refusals_say() -> None:
    shown = info()["constructs"]
    assert shown["uprobe"]["bcc"] == {"state": "yes", "note": None, "remedy": None}
    assert shown["uid, gid, username"]["ftrace"] == {
        "state": "no",
        "note": "the kernel's events carry no user and group",
        "remedy": "--backend bcc can",
    }
    assert shown["predicate"]["bcc"] == {"state": "yes", "note": "in the kernel", "remedy": None}


def test_constructs_follow_from_what_the_kernel_has() -> None:
    done = tracer("info", "--json", env={"TRACER_WITHOUT": "sleepable,ref_ctr"})
    shown = json.loads(done.out)["constructs"]
    assert shown["str"] == {
        "bcc": {
            "state": "partly",
            "note": "data on a page that is not in memory is counted as unreadable",
            "remedy": None,
        },
        "ftrace": {"state": "yes", "note": None, "remedy": None},
    }
    no = {
        "state": "no",
        "note": "the kernel does not count semaphores (ref_ctr, Linux 4.20)",
        "remedy": "--usdt-file-activation raises them in the processes that run now",
    }
    assert shown["usdt semaphore"] == {"bcc": no, "ftrace": no}


def test_a_backend_that_cannot_be_used_can_do_nothing() -> None:
    shown = info(*WITHOUT_BPF)["constructs"]
    assert {row["bcc"]["state"] for row in shown.values()} == {"no"}
    assert shown["uprobe"]["ftrace"]["state"] == "yes"


def test_as_nobody_what_only_root_can_see_is_unknown() -> None:
    shown = info(*NOBODY)["constructs"]
    assert shown["uprobe"]["bcc"]["state"] == "yes"
    assert shown["uid, gid, username"]["ftrace"]["state"] == "no"
    assert shown["str"]["bcc"]["state"] == "unknown"
    assert shown["usdt semaphore"]["ftrace"]["state"] == "unknown"
    done = tracer("info", prefix=NOBODY)
    assert "  bpf sleepable        unknown without root\n" in done.text
    assert done.text.endswith("  (unknown: only root can see it)\n")


def test_unknown_names_of_features_are_a_usage_error() -> None:
    done = tracer("info", env={"TRACER_WITHOUT": "ref-ctr"})
    assert (done.status, done.out) == (2, b"")
    assert done.err.startswith("tracer: error: TRACER_WITHOUT: unknown ref-ctr; known are bpf, ")


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
    assert not [line for line in lines if len(line) > 80 and " /" not in line], "wider than a terminal"
    columns = [line.index("ftrace") for line in lines if line.startswith("Constructs")]
    states = [line for line in lines if line[columns[0] :] in ("yes", "partly", "no", "unknown")]
    assert len(states) == len(info(*prefix)["constructs"])
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
