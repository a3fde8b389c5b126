"""Kernels of which one half is closed: no bpf() at all, or lockdown in confidentiality mode, which closes tracefs."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import pytest

from tests.harness.cli import tracer
from tests.harness.warm import Warms
from tests.targets.build import build
from tracer.kernel.lockdown import lockdown

pytestmark = pytest.mark.live

NO_BPF = "the kernel has no bpf(), or something like a container's seccomp filter hides it"
NO_BPF_REMEDY = "allow bpf() there, or boot a kernel with CONFIG_BPF_SYSCALL"
EMPTY = "tracefs is empty: kernel lockdown in confidentiality mode closes it"
LOCKED_REMEDY = "boot without lockdown=confidentiality; BPF needs no tracefs"
YES = {"usable": True, "reason": None, "remedy": None}


@pytest.fixture(scope="module")
def mode() -> str:
    """The mode of kernel lockdown; securityfs, which tells, is mounted for it."""
    libc = ctypes.CDLL(None)
    libc.mount(b"securityfs", b"/sys/kernel/security", b"securityfs", 0, None)
    return lockdown()


@pytest.fixture(scope="module")
def shown(mode: str, warms: Warms) -> dict[str, Any]:
    """What `info` shows here."""
    found: dict[str, Any] = json.loads(warms.tracer("info", "--json").out)
    assert found["features"]["lockdown"] == mode
    return found


def locked_down(mode: str) -> None:
    if mode != "confidentiality":
        pytest.skip("this kernel is not locked down")


def parcels(*options: str) -> tuple[int, bytes, str]:
    path = build("depot")
    program = f"usdt:{path}:depot:parcel {{ $item = str(arg1); @[$item] = sum(arg3); }}"
    done = tracer(*options, "-e", program, "-c", f"{path} 5")
    return done.status, done.out, done.err


ANSWER = '@[copper wire]: 8\n@[étau]: 18\n@[glue]: 20\n@[3" "brass" nails]: 144\n@[bolts]: 150\n'.encode()


def test_info_says_which_half_is_closed(shown: dict[str, Any], mode: str) -> None:
    if shown["features"]["bpf"] != "yes":
        closed = {"usable": False, "reason": NO_BPF, "remedy": NO_BPF_REMEDY}
        assert (shown["chosen"], shown["backends"]) == ("ftrace", {"bcc": closed, "ftrace": YES})
    elif mode == "confidentiality":
        closed = {"usable": False, "reason": EMPTY, "remedy": LOCKED_REMEDY}
        assert (shown["chosen"], shown["backends"]) == ("bcc", {"bcc": YES, "ftrace": closed})
    else:
        assert (shown["chosen"], shown["backends"]) == ("bcc", {"bcc": YES, "ftrace": YES})


def test_locked_down_the_same_line_runs_on_bcc(mode: str) -> None:
    """A string in a variable is copied, which no helper may do there."""
    locked_down(mode)
    assert parcels() == (0, ANSWER, "Attached 1 probe\n")


def test_locked_down_ftrace_is_refused_in_one_line(mode: str) -> None:
    locked_down(mode)
    assert parcels("--backend", "ftrace") == (1, b"", f"tracer: error: {EMPTY}; {LOCKED_REMEDY}\n")


def test_locked_down_what_bcc_cannot_do_is_refused_with_both_reasons(mode: str) -> None:
    locked_down(mode)
    path = build("depot")
    program = f"uprobe:{path}:price {{ @c[arg0] = count(); @n = len(@c); clear(@c); }}"
    done = tracer("-e", program, "-c", f"{path} 5")
    assert (done.status, done.out) == (1, b"")
    reason = "BPF programs cannot see all keys of a map, and user space removes what they clear"
    assert done.err == (
        f"{program}\n{' ' * program.index('len(@c)')}^^^^^^^ error: len(@c) is not available with bcc: {reason};"
        f" ftrace could, but {EMPTY} ({LOCKED_REMEDY})\n"
    )
