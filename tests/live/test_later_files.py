"""Patterns of libraries mean files too that processes map while the trace runs: counts equal the program's own, for the
calls that it makes once tracer has said so.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tell, tracer, tracing, until
from tests.targets.build import build

pytestmark = pytest.mark.live

BACKENDS = pytest.mark.parametrize("backend", ["bcc", "ftrace"])
CALLS = 40
SUM = sum(2 * number + ord("o" if number % 2 else "e") for number in range(CALLS))
EACH = """\
usdt:*libplugin_*:plugin:used { @used[str(arg1)] = count(); @probes[probe] = count(); }
uprobe:*libplugin_*:plugin_* { @calls[func] = count(); @arguments = sum(arg0); }
uprobe:*libplugin_*:plugin_use { @at[ustack(1)] = count(); }
uretprobe:*libplugin_*:plugin_use { @returned = sum(retval); }
uprobe:libc:fgets { @lines = count(); }
"""


@pytest.fixture
def plugins(tmp_path: Path) -> list[Path]:
    """Two libraries of the same functions, where no pattern without a slash would look."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    found = [folder / f"libplugin_{name}.so" for name in ("one", "two")]
    for path in found:
        shutil.copy(build("plugin"), path)
    return found


@contextmanager
def loader() -> Iterator[subprocess.Popen[bytes]]:
    with target(build("loader")) as process:
        assert read_line(process) == "ready"
        yield process


def load(process: subprocess.Popen[bytes], path: Path) -> int:
    """Lets it load a library; the address of the function in it."""
    tell(process, f"load {path}\n")
    return int(read_line(process), 16)


def call(process: subprocess.Popen[bytes]) -> None:
    tell(process, f"call {CALLS}\n")
    assert read_line(process) == str(SUM)


def notice(path: Path, pid: int, probes: int) -> str:
    return f"tracer: attached {probes} more probe{'' if probes == 1 else 's'} in {path}, mapped by {pid} (loader)\n"


@BACKENDS
def test_what_a_process_loads_later_is_traced_as_if_it_had_been_there(
    backend: str, tmp_path: Path, plugins: list[Path]
) -> None:
    with loader() as process, tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", EACH) as trace:
        for path in plugins:
            load(process, path)
            trace.wait_for(notice(path, process.pid, 5))
            call(process)
        tell(process, "end\n")
        done = trace.wait()
    assert done.status == 0
    assert done.err == "Attached 1 probe\n" + "".join(notice(path, process.pid, 5) for path in plugins)
    one, two = (f"@probes[usdt:{path}:plugin:used]: {CALLS}" for path in plugins)
    assert done.text.splitlines() == [
        f"@arguments: {2 * sum(range(CALLS))}",
        *(["@at[", "        plugin_use+0", f"]: {CALLS}"] * 2),
        f"@calls[plugin_use]: {2 * CALLS}",
        f"@lines: {2 * len(plugins)}",
        one,
        two,
        f"@returned: {2 * SUM}",
        f"@used[even]: {CALLS}",
        f"@used[odd]: {CALLS}",
    ]


@pytest.mark.parametrize(("backend", "without"), [("bcc", "uprobe_multi"), ("ftrace", "inherit_thread,many")])
def test_older_kernels_trace_what_comes_later_too(
    backend: str, without: str, tmp_path: Path, plugins: list[Path]
) -> None:
    text = (
        "uprobe:*libplugin_*:plugin_use { @ = count(); } uprobe:libc:fgets { @lines = count(); }"
        " uprobe:*libplugin_nowhere*:f { @never = count(); }"
    )
    options = ("--backend", backend, "-p")
    with loader() as process, tracing(
        tmp_path, *options, str(process.pid), "-e", text, env={"TRACER_WITHOUT": without}
    ) as trace:
        load(process, plugins[1])
        trace.wait_for(notice(plugins[1], process.pid, 1))
        call(process)
        done = trace.stop()
    assert done.text == f"@: {CALLS}\n@lines: 2\n"
    silent = "tracer: uprobe:*libplugin_nowhere*:f was never hit: no process has mapped a file that it means"
    assert done.err.splitlines() == ["Attached 1 probe", notice(plugins[1], process.pid, 1).rstrip("\n"), silent]


@BACKENDS
def test_a_pattern_without_a_file_waits_for_the_first_process_that_maps_one(
    backend: str, tmp_path: Path, plugins: list[Path]
) -> None:
    text = "BEGIN { printf(\"begin\\n\"); } uprobe:*libplugin_*:plugin_use { @[pid] = count(); }"
    waits = "tracer: *libplugin_*: no file matches: waiting until a process maps one\n"
    with tracing(tmp_path, "--backend", backend, "-e", text, ready=waits.rstrip()) as trace, loader() as first:
        load(first, plugins[0])
        trace.wait_for("Attached 2 probes")
        call(first)
        with loader() as second:
            load(second, plugins[0])  # the same file is traced everywhere
            call(second)
            load(second, plugins[1])
            trace.wait_for(notice(plugins[1], second.pid, 1))
            call(second)
        done = trace.stop()
    assert done.err == f"{waits}Attached 2 probes\n{notice(plugins[1], second.pid, 1)}"
    assert done.text == f"begin\n@[{first.pid}]: {CALLS}\n@[{second.pid}]: {2 * CALLS}\n"


@BACKENDS
def test_a_command_runs_until_it_maps_a_file_and_ends_the_wait(
    backend: str, tmp_path: Path, plugins: list[Path]
) -> None:
    commands = tmp_path / "commands"
    commands.write_text(f"load {plugins[0]}\n")
    command = f"sh -c 'cat {commands}; sleep 3; printf \"call {CALLS}\\nend\\n\"' | exec {build('loader')}"
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\n{command}\n")
    script.chmod(0o755)
    text = "uprobe:*libplugin_*:plugin_use { @ = count(); }"
    done = tracer("--backend", backend, "--follow", "-c", str(script), "-e", text)
    waiting = "tracer: *libplugin_*: no file matches: waiting until process "
    assert done.err.startswith(waiting) and done.err.endswith(" maps one\nAttached 1 probe\n")
    assert (done.text.splitlines()[-1], done.status) == (f"@: {CALLS}", 0)
    silent = tracer("--backend", backend, "-c", "sleep 0.2", "-e", text)
    assert silent.status == 1
    assert silent.err.endswith("error: *libplugin_*: no file matches, and none came before the end of the process\n")


def test_without_a_file_a_wait_ends_with_the_duration() -> None:
    done = tracer("-d", "0.5", "-e", "uprobe:*libplugin_nowhere*:f { @ = count(); }")
    assert done.err.endswith("error: *libplugin_nowhere*: no file matches, and none came within 0.5 s\n")
    assert done.status == 1


@BACKENDS
def test_a_file_in_a_mount_namespace_of_its_own_is_traced(backend: str, tmp_path: Path, plugins: list[Path]) -> None:
    script = f"mount -t tmpfs none /mnt && cp {plugins[0]} /mnt/libplugin_mine.so && exec {build('loader')}"
    text = "uprobe:/mnt/libplugin_*:plugin_use { @[func] = count(); }"
    with tracing(tmp_path, "--backend", backend, "-e", text, ready="waiting") as trace:
        with target("unshare", "-m", "sh", "-c", script) as process:
            assert read_line(process) == "ready"
            load(process, Path("/mnt/libplugin_mine.so"))
            trace.wait_for("Attached 1 probe")
            call(process)
        done = trace.stop()
    assert done.text == f"@[plugin_use]: {CALLS}\n"


@BACKENDS
def test_a_killed_tracer_leaves_no_breakpoint_in_what_came_later(
    backend: str, tmp_path: Path, plugins: list[Path]
) -> None:
    text = f"uprobe:*libplugin_*:plugin_use {{ @ = count(); }} uprobe:{build('loader')}:main {{ @m = count(); }}"
    with loader() as process, tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", text) as trace:
        address = load(process, plugins[0])
        trace.wait_for("attached 1 more")
        assert code(process.pid, address) == b"\xcc"
        trace.process.kill()
        until(lambda: code(process.pid, address) != b"\xcc")
        call(process)
        with open("/sys/kernel/tracing/uprobe_events") as events:
            until(lambda: str(plugins[0]) not in (events.seek(0), events.read())[1])


@BACKENDS
def test_a_file_that_does_not_go_with_the_others_is_left_out_by_name(
    backend: str, tmp_path: Path, plugins: list[Path]
) -> None:
    longer = tmp_path / f"libplugin_{'x' * 200}.so"
    shutil.copy(build("plugin"), longer)
    text = "uprobe:*libplugin_*:plugin_use { @[probe] = count(); }"
    with loader() as process:
        load(process, plugins[0])
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", text) as trace:
            load(process, longer)
            trace.wait_for("left out")
            call(process)
            load(process, plugins[0])
            call(process)
            tell(process, "end\n")
            done = trace.wait()
    reason = "with it @ would hold values of another type"
    assert done.err.endswith(f"tracer: left out: {longer}, mapped by {process.pid} (loader): {reason}\n")
    assert done.text == f"@[uprobe:{plugins[0]}:plugin_use]: {CALLS}\n"


@BACKENDS
def test_the_limit_of_probes_holds_for_files_that_come_later(
    backend: str, tmp_path: Path, plugins: list[Path]
) -> None:
    text = "uprobe:*libplugin_*:plugin_* { @ = count(); }"
    with loader() as process:
        load(process, plugins[0])
        options = ("--backend", backend, "--max-probes", "3", "-p", str(process.pid), "-e", text)
        with tracing(tmp_path, *options) as trace:
            load(process, plugins[1])
            trace.wait_for("left out")
            call(process)
            done = trace.stop()
    reason = "'plugin_*' matches 2 functions, more than max_probes (3) less 2 others"
    left_out = f"tracer: left out: {plugins[1]}, mapped by {process.pid} (loader): {reason}"
    assert done.err.splitlines()[:2] == ["Attached 2 probes", left_out]
    assert done.text == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_and_the_command(number: int, tmp_path: Path) -> None:
    command = tmp_path / "command"
    command.write_text("#!/bin/sh\nexec sleep 60\n")
    command.chmod(0o755)
    words = ("-c", str(command), "-e", "uprobe:*libplugin_nowhere*:f { @ = count(); }")
    with tracing(tmp_path, *words, ready="waiting until process") as trace:
        pid = int(trace.err.partition("waiting until process ")[2].split()[0])
        until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
        trace.signal(number)
        done = trace.wait()
    assert (done.status, done.err.splitlines()[-1]) == (1, "tracer: interrupted")
    assert not Path(f"/proc/{pid}").exists()


def code(pid: int, address: int) -> bytes:
    """The byte of a process there."""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        return os.pread(memory.fileno(), 1, address)




@BACKENDS
def test_files_that_come_at_once_are_told_apart_and_may_be_busy(
    backend: str, tmp_path: Path, plugins: list[Path]
) -> None:
    """Each is planned upon what the one before has added; the overhead guard asks what their hits cost."""
    every = [*plugins, *(plugins[0].with_name(f"libplugin_{name}.so") for name in ("three", "four"))]
    for path in every[2:]:
        shutil.copy(plugins[0], path)
    text = "uprobe:libc:fgets { @lines = count(); } uprobe:*libplugin_*:plugin_use { @[probe] = count(); }"
    with loader() as process, tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", text) as trace:
        for path in every:
            load(process, path)
        for path in every:
            trace.wait_for(notice(path, process.pid, 1))
        for number, path in enumerate(every, 1):
            load(process, path)
            for _ in range(number * 200):
                call(process)
        done = trace.stop()
    counts = [f"@[uprobe:{path}:plugin_use]: {number * 200 * CALLS}" for number, path in enumerate(every, 1)]
    assert (done.status, [line for line in done.text.splitlines() if "[" in line]) == (0, counts)
