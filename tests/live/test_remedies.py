"""What a backend refuses it names, with the reason and a remedy under the user's text; and the remedy works.

Semaphores are in test_activation, clauses that are too large in test_too_large, bpf() that is not there in
test_without_bpf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.cli import Done, target, tracer, tracing

pytestmark = pytest.mark.live


@dataclass(frozen=True)
class Refused:
    """A program that one backend refuses; MARK stands under `construct`, and the other backend prints `answer`."""

    backend: str
    program: str
    construct: str
    reason: str
    answer: str


_COMPUTED = "it reads memory at argN, retval, or a pointer found there, plus a constant; not at a computed address"
_CLEARED = "BPF programs cannot see all keys of a map, and user space removes what they clear"

REFUSED = {
    "uid": Refused(
        "ftrace", "uprobe:{}:price {{ @[uid] = count(); }}", "uid", "the kernel's events carry no user and group",
        "@[0]: 40\n",
    ),
    "computed string": Refused(
        "ftrace", "usdt:{}:depot:parcel {{ $p = arg1 + arg0 * 0; @[str($p)] = count(); }}", "str($p)", _COMPUTED, "",
    ),
    "computed load": Refused(
        "ftrace", "usdt:{}:depot:parcel {{ $p = arg1 + arg0 * 0; @[*(uint8*)$p > 0] = count(); }}", "*(uint8*)$p",
        _COMPUTED, "",
    ),
    "cleared keys": Refused(
        "bcc", "uprobe:{}:price {{ @[arg0 % 2] = count(); if (len(@) > 5) {{ clear(@); }} }}", "len(@)", _CLEARED, "",
    ),
    "shared aggregation": Refused(
        "bcc", "BEGIN {{ @ = count(); }} uprobe:{}:price {{ @ = count(); if (@ > 1000) {{ exit(); }} }}", "@ > 1000",
        "BPF programs do not see what is aggregated in user space", "@: 41\n",
    ),
}  # fmt: skip
OTHER = {"bcc": "ftrace", "ftrace": "bcc"}


def run(backend: str, program: str, path: Path) -> Done:
    return tracer("--backend", backend, "-e", program, "-c", f"{path} 40")


@pytest.mark.parametrize("name", REFUSED)
def test_what_one_backend_refuses_the_other_does(name: str, place: Callable[[str], Path], clean: None) -> None:
    case = REFUSED[name]
    path = place("depot")
    program = case.program.format(path)
    done = run(case.backend, program, path)
    assert (done.status, done.out) == (1, b"")
    said = done.err.splitlines()
    assert said[0] == program
    column = program.index(case.construct)
    marks, _, message = said[1].partition(" error: ")
    assert (marks.index("^"), set(marks.strip())) == (column, {"^"})
    remedy = f"--backend {OTHER[case.backend]} can"
    assert message.endswith(f" is not available with {case.backend}: {case.reason}; {remedy}")
    instead = run(OTHER[case.backend], program, path)
    assert instead.status == 0, instead.err
    assert case.answer in instead.text
    free = tracer("-e", program, "-c", f"{path} 40")
    assert (free.status, free.out) == (0, instead.out), free.err


def test_a_place_that_another_tracer_holds_without_its_semaphore_is_free_once_that_one_ends(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    points = f"usdt:{path}:gated:tick"
    program = f"{points} {{ @ = count(); }} interval:ms:300 {{ exit(); }}"
    without = {"TRACER_WITHOUT": "ref_ctr"}
    with target(path, "2"):
        words = ("--backend", "ftrace", "--usdt-file-activation", "-e", f"{points} {{ @ = count(); }}")
        with tracing(tmp_path, *words, env=without) as other:
            done = tracer("--backend", backend, "-e", program)
            assert (done.status, done.out) == (1, b"")
            text, mark = done.err.splitlines()
            assert text == program
            assert mark.startswith(f"{'^' * len(points)} error: ")
            assert mark.endswith(
                ": a probe with another semaphore, or with none, is at this place already; "
                "Linux has one semaphore for each place: end the other tracer, or trace a copy of the file"
            )
            other.stop()
        done = tracer("--backend", backend, "-e", program)
        assert done.status == 0, done.err


def test_what_is_too_much_for_ftrace_is_read_by_bcc_and_fewer_values_by_both(
    place: Callable[[str], Path], clean: None
) -> None:
    path = place("depot")

    def reads(number: int) -> str:
        values = ", ".join(f"*(uint8*)(arg1 + {each})" for each in range(number))
        return f"usdt:{path}:depot:parcel {{ printf(\"{'%d ' * number}\\n\", {values}); }}"

    done = run("ftrace", reads(140), path)
    assert (done.status, done.out) == (1, b"")
    assert "^ error: the kernel takes 128 values of a probe" in done.err
    assert done.err.endswith("; read fewer there, or --backend bcc\n")
    assert run("bcc", reads(140), path).status == 0
    assert run("ftrace", reads(60), path).out == run("bcc", reads(60), path).out


def test_where_tracefs_is_not_mounted_the_remedy_mounts_it(place: Callable[[str], Path], clean: None) -> None:
    path = place("depot")
    program = f"uprobe:{path}:price {{ @ = count(); }}"
    prefix = ("unshare", "-m", "sh", "-c", 'umount -l /sys/kernel/tracing; exec "$@"', "sh")
    done = tracer("--backend", "ftrace", "-e", program, "-c", f"{path} 40", prefix=prefix)
    assert (done.status, done.text.splitlines()[-1]) == (0, "@: 40"), done.err
