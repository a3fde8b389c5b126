"""ppid, pcomm and leader_comm: what the kernel keeps of the process that hit, where BPF may read it."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer
from tests.live.test_pid_namespace import UNSHARE
from tests.targets.build import build

pytestmark = pytest.mark.live

BODY = "{ print((ppid == arg0, pcomm, leader_comm, comm)); @[pcomm, leader_comm] = count(); }"


def program() -> str:
    return f"uprobe:{build('kin')}:hit {BODY}"


@pytest.mark.parametrize("prefix", [(), UNSHARE])
def test_the_parent_is_a_process_and_so_is_its_name(prefix: tuple[str, ...]) -> None:
    """Though it was a thread that made the child, and a thread of the child that hit."""
    done = tracer("-q", "--backend", "bcc", "--follow", "-e", program(), "-c", str(build("kin")), prefix=prefix)
    assert (done.status, done.text) == (0, "(true, kin, child, second)\n@[kin, child]: 1\n"), done.err


def test_a_parent_outside_of_the_container_has_no_number() -> None:
    done = tracer("-q", "-e", "BEGIN { print((ppid, pcomm)); }", prefix=UNSHARE)
    assert (done.status, done.text.strip("\n")) == (0, "(0, )"), done.err


@pytest.mark.parametrize("without", ["btf", "kernel_reads"])
def test_a_kernel_that_does_not_say_it_refuses(without: str) -> None:
    words = ("--backend", "bcc", "-e", program(), "-c", str(build("kin")))
    done = tracer(*words, env={"TRACER_WITHOUT": without})
    assert done.status != 0 and "ppid is not available with bcc" in done.err


def test_ftrace_refuses_it() -> None:
    done = tracer("--backend", "ftrace", "-e", program(), "-c", str(build("kin")))
    assert done.status != 0 and "ppid is not available with ftrace" in done.err
