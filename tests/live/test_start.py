"""What a trace loads when its program and its sites are known: no compiler, and little memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import target, tracer, tracing
from tests.harness.loaded import Loaded, loaded
from tests.unit.test_start import HEAVY
from tracer.resolve.sites import site_cache

MOST_MODULES = 222
OF_THE_LOOK = (
    "silence.breakpoints", "kernel.workers.set_again", "resolve.binary", "resolve.elf", "resolve.safety",
    "host.file_users", "host.memory", "resolve.sites.in_memory", "silence.reasons",
)  # fmt: skip
"""What looks for lost breakpoints: a tenth of a second after the start, which a command of half of that reaches where
the machine is busy.
"""


@pytest.fixture
def warm(
    backend: str, place: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: None
) -> Loaded:
    """The second of two runs of the same line."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = place("hot")
    program = f"uprobe:{path}:spin {{ @ = count(); }}"
    words = ("--backend", backend, "-e", program, "-c", f"{path} 0.05")
    while path.stat().st_ctime_ns + site_cache.SETTLED_NS > _now_ns():
        pass
    cold = loaded(tmp_path, *words)
    assert cold.started.count("subprocess.Popen") == (backend == "bcc")
    return loaded(tmp_path, *words)


def _now_ns() -> int:
    time.sleep(0.05)
    return time.time_ns()


def test_a_trace_whose_sites_are_known_reads_no_file_for_them(backend: str, warm: Loaded) -> None:
    readers = ("functions", "usdt", "dwarf", "symbol", "debug_file")
    resolving = [name for name in sorted(warm.modules) if name.startswith("resolve.")]
    assert [name for name in resolving if any(reader in name for reader in readers)] == []
    assert {name.partition(".")[0] for name in warm.other} & HEAVY <= {"ctypes"}
    own = {name for name in warm.modules if not name.startswith(OF_THE_LOOK)}
    assert len(own) + len(warm.other) <= MOST_MODULES, sorted(own | warm.other)


def test_a_backend_is_loaded_alone_and_without_what_the_plan_does_not_need(backend: str, warm: Loaded) -> None:
    unneeded = {
        "bcc": ("ftrace", "bcc.host.follow", "bcc.compile.child", "activation"),
        "ftrace": ("bcc", "ftrace.read.hist_file", "ftrace.read.hist_maps", "activation"),
    }[backend]
    names = [f"backends.{each}" for each in unneeded]
    names += ["kernel.kin.descendants", "kernel.workers.semaphores"]
    assert f"backends.{backend}.session" in warm.modules
    assert [name for name in sorted(warm.modules) if name.startswith(tuple(names))] == []


def test_a_program_that_is_known_starts_no_compiler_and_maps_none(backend: str, warm: Loaded) -> None:
    # The command of -c, and the watcher.
    assert warm.started == ("os.fork", "os.fork")
    large = ("libbcc", "LLVM", "clang", "libcrypto", "capstone")
    assert [path for path in warm.maps if any(name in path for name in large)] == []


def test_the_process_that_removes_probes_keeps_little_of_its_own(
    backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    """It is a copy of tracer, and each page that tracer changes afterwards is its alone: 8,160 kB on bcc, where it was
    started before the program was loaded, 6,830 since.
    """
    path = place("hot")
    words = ("--backend", backend, "-e", f"uprobe:{path}:spin {{ @ = count(); }}", "-p")
    with target(path, 600) as process, tracing(tmp_path, *words, str(process.pid)) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        (undo,) = [each for each in children if Path(f"/proc/{each}/comm").read_text() == "uprobe-undo\n"]
        time.sleep(0.5)  # for what is looked at in the first tenth of a second
        facts = Path(f"/proc/{undo}/smaps_rollup").read_text().splitlines()
        assert next(int(line.split()[1]) for line in facts if line.startswith("Private_Dirty:")) < 7_600, facts


def test_a_warm_count_takes_a_quarter_of_the_memory_that_loading_a_compiler_takes(warm: Loaded) -> None:
    """120 MB were measured with a compiler, 25 without; bpftrace takes 91."""
    assert warm.peak_kb < 40_000


@pytest.mark.parametrize(
    "words", [("hist", "F", "arg0"), ("latency", "F"), ("args", "F"), ("trace", "F"), ("stacks", "F"), ("top", "--cpu")]
)
def test_a_command_loads_little_more_than_its_program(words: tuple[str, ...], tmp_path: Path) -> None:
    """Which is what it takes longer to start: half a millisecond for a module."""
    command = [word.replace("F", "libc:fopen") for word in words]
    of_trace = ("-q", "--backend", "ftrace", "-c", "true")
    program = tracer(*command, "--show", "-c", "true").text
    plain, whole = loaded(tmp_path, *of_trace, "-e", program), loaded(tmp_path, *command, *of_trace)
    more = {name for name in whole.modules - plain.modules if not name.startswith(OF_THE_LOOK)}
    table = 8 * (words[0] == "top")
    assert len(more) <= 8 + table and not whole.other - plain.other, sorted(more)
