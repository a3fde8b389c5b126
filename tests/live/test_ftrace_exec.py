"""Processes that exec under a trace of ftrace: with set-group-ID the kernel takes their descriptors away."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE, TRACER, environment, read_line, target, tell, tracer
from tests.live.answers import maps
from tests.live.ftrace import compiled_c, finish, items, session

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

HITS = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

PROBE long hit(long i) { __asm__ volatile("" ::: "memory"); return i; }

static void *change(void *p) {
  execv(((char **)p)[0], p);
  return p;
}

int main(int argc, char **argv) {
  puts("ready");
  fflush(stdout);
  getchar();
  for (long i = 0; i < 1000; i++) hit(i);
  puts("done");
  fflush(stdout);
  if (argc > 2) pthread_create(&(pthread_t){0}, 0, change, argv + 2);
  else if (argc > 1) change(argv + 1);
  if (argc > 2) pause();
  getchar();
  return 0;
}
"""


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return compiled_c(tmp_path / "plain", HITS, "-pthread")


@pytest.fixture
def setgid(tmp_path: Path) -> Path:
    path = compiled_c(tmp_path / "setgid", HITS, "-pthread")
    os.chown(path, 0, 1)
    path.chmod(0o2755)
    return path


ACTIONS = pytest.mark.parametrize("action", ["@ = count();", "@[pid - pid] = count();"])


@ACTIONS
def test_a_set_group_id_program_of_c_is_traced_from_its_start(setgid: Path, action: str) -> None:
    program = f"uprobe:{setgid}:hit {{ {action} }}"
    done = tracer("--backend", "ftrace", "-f", "json", "-e", program, "-c", str(setgid), stdin=b"xx")
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert maps(done)["@"] in (1000, {"0": 1000})


@ACTIONS
@pytest.mark.parametrize("by", [[], ["another thread"]])
@pytest.mark.parametrize("kind", ["plain", "setgid"])
def test_a_process_is_followed_over_exec(plain: Path, setgid: Path, kind: str, by: list[str], action: str) -> None:
    second = plain if kind == "plain" else setgid
    text = f"uprobe:{second}:hit {{ {action} }}"
    with target(plain, *by, str(second)) as process, session(text, process.pid) as opened:
        read_line(process)
        tell(process)
        read_line(process)
        assert read_line(process) == "ready"
        for _ in range(3):
            list(opened.events(0.1))
        tell(process)
        assert read_line(process) == "done"
        finish(opened)
        (count,) = items(opened).values()
        assert count == (2000 if kind == "plain" else 1000)


@ACTIONS
def test_one_of_several_is_followed_over_exec_and_no_hit_of_the_other_is_missed_meanwhile(
    plain: Path, setgid: Path, action: str
) -> None:
    text = f"uprobe:{plain}:hit, uprobe:{setgid}:hit {{ {action} }}"
    with target(plain, setgid) as process, target(plain) as other, session(text, process.pid, other.pid) as opened:
        for each in (process, other):
            read_line(each)
        tell(process)
        assert (read_line(process), read_line(process)) == ("done", "ready")
        tell(other)
        for _ in range(3):
            list(opened.events(0.1))
        assert read_line(other) == "done"
        tell(process)
        assert read_line(process) == "done"
        finish(opened)
        (count,) = items(opened).values()
        assert count == 3000


def test_the_program_of_c_keeps_its_limit_of_descriptors(plain: Path) -> None:
    def low() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    shell = f"sh -c 'ulimit -n; exec {plain}'"
    command = ["--backend", "ftrace", "-e", f"uprobe:{plain}:hit {{ @[pid - pid] = count(); }}", "-c", shell]
    done = run(command, low)
    assert done.stdout.splitlines() == ["12", "ready", "done", "", "", "@[0]: 1000"]


def run(command: list[str], before: Callable[[], None]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRACER, *command], input="xx", capture_output=True, text=True, env=environment(), timeout=30 * PATIENCE,
        preexec_fn=before,
    )  # fmt: skip
