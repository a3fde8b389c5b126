"""Programs that run others by reading their code: a breakpoint in it would end them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tracer, tracing
from tests.live.ftrace import compiled_c

# Meanwhile no trace of all processes may read the libraries that they have mapped.
pytestmark = [pytest.mark.live, pytest.mark.clock]

# Calls `work` when it is asked to, and ends with its input.
TARGET = r"""
#include <stdio.h>
static volatile int n;
__attribute__((noinline)) void work(void) { n++; }
int main(void)
{
    setbuf(stdout, 0);
    puts("ready");
    while (getchar() != EOF) work();
    printf("%d\n", n);
    return 0;
}
"""

# What QEMU does to a program, as far as it is seen from outside.
MAPPER = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
    mmap(0, 4096, PROT_READ, MAP_PRIVATE, open(argv[1], O_RDONLY), 0);
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
"""

BACKENDS = pytest.mark.parametrize("backend", ["bcc", "ftrace"])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_c(tmp_path_factory.mktemp("emulators") / "worker", TARGET)


@contextmanager
def _started(*command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """It has said that it is ready."""
    with target(*command) as process:
        assert read_line(process) == "ready"
        yield process


@BACKENDS
def test_what_valgrind_runs_is_not_probed(backend: str, program: Path) -> None:
    options = "run", "--backend", backend, "-e", f"uprobe:{program}:work {{ @ = count(); }} interval:ms:1 {{ exit(); }}"
    with _started("valgrind", "-q", program) as guest, _started(program) as other:
        anywhere = tracer(*options)
        assert anywhere.status == 1 and anywhere.out == b""
        assert f"process {guest.pid} (memcheck-" in anywhere.err
        assert f"is Valgrind and reads {program}: it translates code together with breakpoints" in anywhere.err
        assert "trace another process alone with -p PID, or wait until that one has ended" in anywhere.err
        assert tracer(*options, "-p", str(other.pid), "--follow").err.startswith(anywhere.err)
        alone = tracer(*options, "-p", str(guest.pid))
        assert alone.status == 1 and "no probe is hit in it anyway" in alone.err
    assert tracer(*options).status == 0


@BACKENDS
def test_what_valgrind_runs_goes_on_while_another_process_is_traced(
    backend: str, program: Path, tmp_path: Path
) -> None:
    count = f"uprobe:{program}:work {{ @ = count(); }}"
    with (
        _started("valgrind", "-q", program) as guest,
        _started(program) as other,
        tracing(tmp_path, "run", "--backend", backend, "-p", str(other.pid), "-e", count) as running,
    ):
        assert guest.communicate(b"ab") == (b"2\n", b"")  # it translates the function now
        assert guest.returncode == 0
        assert other.communicate(b"abc")[0] == b"3\n"
        assert b"@: 3\n" in running.wait().out


def test_valgrind_is_no_command_to_trace(program: Path) -> None:
    refused = tracer("run", "-e", f"uprobe:{program}:work {{ @ = count(); }}", "-c", f"valgrind {program}")
    assert refused.status == 1 and refused.out == b""
    assert "the command is Valgrind: it translates code" in refused.err and "leave Valgrind out of -c" in refused.err


@pytest.mark.parametrize("name", ["qemu-x86_64", "qemu-x86_64-static", "qemu-img"])
def test_qemu_is_known_by_its_name(name: str, program: Path, tmp_path: Path) -> None:
    with _started(compiled_c(tmp_path / name, MAPPER), program) as emulator:
        done = tracer("run", "-e", f"uprobe:{program}:work {{ @ = count(); }} interval:ms:1 {{ exit(); }}")
        refused = f"process {emulator.pid} ({name}) is QEMU and reads {program}" in done.err
        assert (done.status, refused) == ((0, False) if name == "qemu-img" else (1, True)), done.err
