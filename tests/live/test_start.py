"""What a trace loads when its program and its sites are known: no compiler, and little memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.loaded import Loaded, loaded
from tests.unit.test_start import BYTES, COMMAND_LINE, KERNEL, RUNNING
from tracer.resolve.sites import kept

KNOWN_SITES = {
    "backends.beforehand", "cache", "child", "cli.errors", "gate", "paths", "resolve.arch", "resolve.elf.layout",
    "resolve.files.find", "resolve.files.identity", "resolve.sites.kept", "resolve.files.libraries",
    "resolve.processes.maps", "resolve.sites.site_code", "results.merge", "resolve.files", "resolve.processes",
    "resolve.elf",
}  # fmt: skip
OTHER = {*BYTES, *KERNEL, "pwd", "resource", "shlex", "unicodedata", "glob", "bisect"}


@pytest.fixture
def warm(
    backend: str, place: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: None
) -> Loaded:
    """The second of two runs of the same line."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = place("hot")
    program = f"uprobe:{path}:spin {{ @ = count(); }}"
    words = ("--backend", backend, "-e", program, "-c", f"{path} 0.05")
    while path.stat().st_ctime_ns + kept.SETTLED_NS > _now_ns():
        pass
    cold = loaded(tmp_path, *words)
    assert cold.started.count("subprocess.Popen") == (backend == "bcc")
    return loaded(tmp_path, *words)


def _now_ns() -> int:
    import time

    time.sleep(0.05)
    return time.time_ns()


def test_a_trace_whose_sites_are_known_reads_no_file_for_them(backend: str, warm: Loaded) -> None:
    of_backends = {name for name in warm.own if name.startswith("backends.")}
    assert warm.own - of_backends - COMMAND_LINE - RUNNING - KNOWN_SITES == set()
    assert warm.other - OTHER - {"__future__"} == set()


def test_a_backend_is_loaded_alone_and_without_what_the_plan_does_not_need(backend: str, warm: Loaded) -> None:
    unneeded = {
        "bcc": ("ftrace", "bcc.follow", "bcc.compile_child", "perf", "descendants", "semaphores", "activated"),
        "ftrace": ("bcc", "ftrace.histfile", "ftrace.histmaps", "descendants", "semaphores", "activated"),
    }[backend]
    assert f"backends.{backend}.session" in warm.own
    assert [name for name in sorted(warm.own) if name.startswith(tuple(f"backends.{each}" for each in unneeded))] == []


def test_a_program_that_is_known_starts_no_compiler_and_maps_none(backend: str, warm: Loaded) -> None:
    # The command of -c, and the watcher.
    assert warm.started == ("os.fork", "os.fork")
    large = ("libbcc", "LLVM", "clang", "libcrypto", "capstone")
    assert [path for path in warm.maps if any(name in path for name in large)] == []


def test_a_warm_count_takes_a_quarter_of_the_memory_that_loading_a_compiler_takes(warm: Loaded) -> None:
    """120 MB were measured with a compiler, 25 without; bpftrace takes 91."""
    assert warm.peak_kb < 40_000
