"""A kernel without bpf(), as a seccomp filter pretends it: ftrace does the work, and it is said."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE, environment, tracer
from tests.harness.kernel import left_since, traces

pytestmark = pytest.mark.live

NO_BPF_HERE = "the kernel has no bpf(), or something like a container's seccomp filter hides it"
REMEDY = "allow bpf() there, or boot a kernel with CONFIG_BPF_SYSCALL"

NO_BPF = (str(Path(__file__).parents[2] / "scripts" / "without-bpf"),)


def test_the_same_line_falls_back_to_ftrace_and_says_so(place: Callable[[str], Path]) -> None:
    path = place("depot")
    program = f"usdt:{path}:depot:parcel {{ @[str(arg1)] = sum(arg3); }}"
    before = traces()
    with_bpf = tracer("-e", program, "-c", f"{path} 40")
    without = tracer("-e", program, "-c", f"{path} 40", prefix=NO_BPF)
    assert (with_bpf.status, with_bpf.err) == (0, "Attached 1 probe\n")
    assert (without.status, without.out) == (0, with_bpf.out)
    assert without.err == (f"tracer: using ftrace, not bcc: {NO_BPF_HERE} ({REMEDY})\nAttached 1 probe\n")
    assert not left_since(before)


def test_bcc_that_was_asked_for_is_refused_in_one_line(place: Callable[[str], Path]) -> None:
    path = place("depot")
    done = tracer(
        "--backend", "bcc", "-e", f"uprobe:{path}:price {{ @ = count(); }}", "-c", f"{path} 40", prefix=NO_BPF
    )
    assert (done.status, done.out) == (1, b"")
    assert done.err == f"tracer: error: {NO_BPF_HERE}; {REMEDY}\n"


def test_what_ftrace_cannot_do_is_refused_with_both_reasons(place: Callable[[str], Path]) -> None:
    path = place("depot")
    done = tracer("-e", f"uprobe:{path}:price {{ @[uid] = count(); }}", "-c", f"{path} 40", prefix=NO_BPF)
    assert (done.status, done.out) == (1, b"")
    assert "uid is not available with ftrace" in done.err
    assert "bpf()" in done.err


def test_neither_libbcc_nor_its_binding_is_loaded_to_find_out(place: Callable[[str], Path]) -> None:
    path = place("depot")
    script = (
        "import sys; from tracer.cli.app import main; status = main(sys.argv[1:]); sys.stdout.flush();"
        "print(status, [name for name in sys.modules if name.split('.')[0] == 'bcc' or name.endswith('.compiler')],"
        "[line for line in open('/proc/self/maps') if 'libbcc' in line])"
    )
    words = ("-e", f"usdt:{path}:depot:parcel {{ @ = count(); }}", "-c", f"{path} 5")
    command = [*NO_BPF, sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 * PATIENCE, env=environment())
    assert (done.returncode, done.stdout) == (0, "\n\n@: 5\n0 [] []\n"), done.stderr


def test_info_tells_of_it() -> None:
    done = tracer("info", "--json", prefix=NO_BPF)
    info = json.loads(done.text)
    assert (done.status, info["chosen"]) == (0, "ftrace")
    assert info["backends"]["bcc"]["usable"] is False
    assert info["backends"]["bcc"]["reason"]
    assert info["backends"]["ftrace"] == {"usable": True, "reason": None, "remedy": None}
