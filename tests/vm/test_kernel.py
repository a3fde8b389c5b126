"""The table of kernels is true, and `tracer` finds out by itself what each can do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.lab.kernels import Kernel
from tests.harness.warm import Warms
from tracer.kernel.trials.nop10 import calls_nop10

NO_BPF = (
    "the kernel has no bpf(), or something like a container's seccomp filter hides it",
    "allow bpf() there, or boot a kernel with CONFIG_BPF_SYSCALL",
)
# What `tracer info` calls the features of the table.
CALLED = {
    "hist": "hist triggers",
    "string_page": "strings in bounds",
    "reads": "bpf kernel reads",
    "sleepable": "bpf sleepable",
    "multi": "uprobe_multi",
}


@pytest.fixture(scope="module")
def info(warms: Warms) -> dict[str, Any]:
    done = warms.tracer("info", "--json")
    assert (done.status, done.err) == (0, "")
    shown: dict[str, Any] = json.loads(done.text)
    assert shown["kernel"] == os.uname().release
    return shown


def test_the_kernel_has_the_backends_of_the_table_and_no_others(kernel: Kernel, info: dict[str, Any]) -> None:
    usable = tuple(name for name, state in info["backends"].items() if state["usable"])
    assert usable == kernel.backends
    assert info["chosen"] == kernel.backends[0]


def test_the_kernel_has_the_features_of_the_table_and_no_others(kernel: Kernel, info: dict[str, Any]) -> None:
    there = {name for name, called in CALLED.items() if info["features"].get(called) == "yes"}
    there |= {"nop10"} if calls_nop10() else set()
    assert there == kernel.features


def test_a_line_with_no_option_runs_on_what_there_is(
    kernel: Kernel, place: Callable[[str], Path], warms: Warms
) -> None:
    path = place("depot")
    done = warms.tracer("-e", f"usdt:{path}:depot:parcel {{ @ = count(); }}", "-c", f"{path} 40")
    reason, remedy = NO_BPF
    passed_over = "" if "bcc" in kernel.backends else f"tracer: using ftrace, not bcc: {reason} ({remedy})\n"
    assert (done.status, done.text, done.err) == (0, "@: 40\n", passed_over + "Attached 1 probe\n")


@pytest.mark.needs("ftrace")
def test_ftrace_leaves_nothing(place: Callable[[str], Path], clean: None, warms: Warms) -> None:
    path = place("depot")
    done = warms.tracer("--backend", "ftrace", "-e", f"uprobe:{path}:price {{ @ = count(); }}", "-c", f"{path} 40")
    assert done.status == 0, done.err


@pytest.mark.needs("bcc")
def test_bcc_leaves_nothing(place: Callable[[str], Path], clean: None, warms: Warms) -> None:
    path = place("depot")
    done = warms.tracer("--backend", "bcc", "-e", f"uprobe:{path}:price {{ @ = count(); }}", "-c", f"{path} 40")
    assert done.status == 0, done.err


def test_a_backend_that_the_kernel_has_not_is_refused_with_the_reason_that_info_gives(
    kernel: Kernel, info: dict[str, Any], place: Callable[[str], Path], warms: Warms
) -> None:
    path = place("depot")
    for name in {"bcc", "ftrace"} - set(kernel.backends):
        done = warms.tracer("--backend", name, "-e", f"uprobe:{path}:price {{ @ = count(); }}", "-c", f"{path} 40")
        state = info["backends"][name]
        assert (done.status, done.out) == (1, b"")
        assert done.err == f"tracer: error: {state['reason']}; {state['remedy']}\n"
