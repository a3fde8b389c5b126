"""Whether return probes end programs with a seccomp filter on this kernel, and what is done where they do."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import environment

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="uretprobe(2) is of x86-64 alone"),
]

# Lets uretprobe(2) fail in all threads of a program, as a filter does before Linux 6.14.
FORBID = r"""
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    pid_t first = fork(), pid;
    int status;
    if (!first) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execv(argv[1], argv + 1);
        return 127;
    }
    waitpid(first, &status, 0);
    ptrace(PTRACE_SETOPTIONS, first, NULL, PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD);
    ptrace(PTRACE_SYSCALL, first, NULL, NULL);
    while ((pid = waitpid(-1, &status, __WALL)) > 0) {
        int signal = 0;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid == first) return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
            continue;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            long at = offsetof(struct user_regs_struct, orig_rax);
            if (ptrace(PTRACE_PEEKUSER, pid, at, NULL) == 335) ptrace(PTRACE_POKEUSER, pid, at, -1L);
        } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
            signal = WSTOPSIG(status);
        }
        ptrace(PTRACE_SYSCALL, pid, NULL, signal);
    }
    return 98;
}
"""
TRIAL = """
from tracer.kernel.trials import filtered_returns
filtered_returns._FROM, filtered_returns._FIXED = (0, 0), (999, 0)
print(filtered_returns.end_filtered_programs())
"""


def _tried(*before: str | Path) -> str:
    done = subprocess.run([*before, sys.executable, "-c", TRIAL], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_kernel_that_lets_the_call_pass_is_told_from_one_that_does_not(tmp_path: Path) -> None:
    assert _tried() == "False\n"
    (tmp_path / "forbid.c").write_text(FORBID)
    subprocess.run(["gcc", "-O1", "forbid.c", "-o", "forbid"], cwd=tmp_path, check=True)
    assert _tried(tmp_path / "forbid") == "True\n"
