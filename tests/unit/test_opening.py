"""Who opens files, and that one which somebody else can name or write holds nobody up."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE, tracer, until
from tracer.opening import NOT_REGULAR, content, given, opened

ROOT = Path(__file__).parents[2] / "tracer"

OPENERS = {
    "open", "io.open", "os.open", "os.fdopen", "mmap.mmap", "linecache.getlines", "tokenize.open", "gzip.open",
    "zipfile.ZipFile", "mkstemp", "tempfile.mkstemp", "tempfile.NamedTemporaryFile", "shutil.copy", "shutil.copyfile",
}  # fmt: skip
METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}

KERNEL = re.compile(
    r"^(os\.)?(open|Path)\(f?'/(proc/|sys/|dev/kmsg)|^(os\.)?open\(f'\{directory\((self\._)?pid\)\}/|\(os\.devnull\)$"
)
"""The files of the kernel: of /proc, /sys and /dev. Nobody else can put one there."""

EXCEPTIONS: dict[str, set[tuple[str, str]]] = {
    "the door itself": {("opening.py", "os.open(path)")},
    "a constant or an argument that is a path of /proc, /sys or tracefs": {
        ("backends/ftrace/capabilities.py", "Path(path).read_text()"),
        ("backends/ftrace/refusals.py", "Path(_PANIC_ON_WARN).read_text()"),
        ("backends/ftrace/string_bounds.py", "open(_SIGNATURE)"),
        ("host/tables/cgroups.py", "open(_OWN)"),
        ("host/tables/cgroups.py", "open(path)"),
        ("host/tables/kallsyms.py", "open(self._path)"),
        ("resolve/kernel_types.py", "open(OF_KERNEL)"),
        ("kernel/lockdown.py", "open(f'{_SECURITYFS}/lockdown')"),
        ("kernel/perf.py", "open(_PMU)"),
        ("kernel/tracefs.py", "open(path)"),
        ("kernel/tracefs.py", "os.open(path)"),
        ("kernel/tracefs.py", "os.open(self.definitions_file)"),
        ("kernel/workers/messages.py", "os.open(path)"),
        ("kernel/workers/removal.py", "open(f'{directory}/maps')"),
        ("kernel/workers/waiting.py", "os.open(path)"),
        ("kernel/workers/watcher_process.py", "open(path)"),
        ("lang/builtins/hit/process.py", "open(path)"),
        ("host/maps.py", "open(f'{directory}/maps')"),
        ("host/memory.py", "os.open(f'{_home(memory)}/pagemap')"),
        ("host/unserved.py", "open(path)"),
        ("host/unserved.py", "os.open(path)"),
        ("resolve/sites/in_memory.py", "os.open(f'{folder}/pagemap')"),
        ("target/large_pages.py", "open(_PAGES)"),
    },
    "what is installed with tracer or with the module that it imports": {
        ("failed_calls.py", "open(code.co_filename)"),
        ("backends/bcc/compile/compiler.py", "open(module)"),
        ("backends/bcc/compile/compiler.py", "open(path)"),
        ("backends/bcc/compile/headers.py", "(folder / include[1]).read_text()"),
        ("backends/bcc/host/binding.py", "(folder / 'version.py').read_text()"),
        ("demo/program.py", "_SOURCE.read_bytes()"),
        ("render/stacks/flame/parts.py", "(Path(__file__).parent / name).read_text('utf-8')"),
    },
    "its own cache, which looks at each directory on the way, or a file that it has just made": {
        ("cache.py", "os.open(key)"),
        ("cache.py", "os.open(name)"),
        ("cache.py", "os.fdopen(descriptor)"),
        ("resolve/elf/debuginfod.py", "mkstemp()"),
    },
    "its own locks, in a directory of root's": {
        ("kernel/uprobe_events/owner.py", "os.open(f'{directory}/{group}')"),
        ("kernel/uprobe_events/owner.py", "os.open(path)"),
        ("kernel/workers/semaphores.py", "os.open(directory)"),
    },
    "O_PATH, which opens nothing": {("resolve/files/identity.py", "os.open(path)")},
    "the root directory": {("backends/bcc/host/trials.py", "os.open('/')")},
    "where the user wants the output, which may be a FIFO": {
        ("cli/flame.py", "open(output)"),
        ("cli/tracing/output.py", "os.open(path)"),
    },
    "a descriptor that is open": {
        ("backends/activation.py", "open(self._worker.to)"),
        ("backends/bcc/compile/child.py", "os.fdopen(output)"),
        ("backends/bcc/events/ring.py", "mmap.mmap(fd)"),
        ("backends/bcc/maps/control.py", "mmap.mmap(fd)"),
        ("kernel/perf.py", "mmap.mmap(self.fd)"),
        ("kernel/trials/hit_cost.py", "mmap.mmap(event)"),
        ("kernel/workers/copier.py", "mmap.mmap(-1)"),
        ("target/gate.py", "mmap.mmap(-1)"),
        ("resolve/files/paths.py", "os.fdopen(opened(archive))"),
        ("verify/files.py", "os.fdopen(opened(path))"),
        ("resolve/files/paths.py", "zipfile.ZipFile(file)"),
    },
    "a file that is served, by a process that is left behind where it waits": {("servers.py", "os.open(path)")},
    "a session, no file": {("backends/fallback.py", "open(compiled)")},
}
"""Who opens a file without the door, and why he may."""


def openings() -> Iterator[tuple[str, str]]:
    """Each call that opens a file: the module, and the call with its first argument."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            method = called.rpartition(".")[2]
            # `Path.open`; what else has a method of that name is given an object.
            of_path = "." in called and method == "open" and (not node.args or isinstance(node.args[0], ast.Constant))
            if called in OPENERS or method in METHODS or of_path:
                yield str(path.relative_to(ROOT)), f"{called}({ast.unparse(node.args[0]) if node.args else ''})"


MEMORY = re.compile(r".*/(?:mem|cmdline|environ)|process_vm_(?:read|write)v|PTRACE_(?:PEEK|POKE)\w*|psutil")
"""What reads the memory of a process, and may wait for a page that never comes: files of /proc, calls, a package."""


def test_the_memory_of_other_processes_is_read_through_one_door() -> None:
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            text = getattr(node, "value", None) or getattr(node, "attr", None) or getattr(node, "name", None)
            text = text or getattr(node, "id", None)
            if isinstance(text, str) and MEMORY.fullmatch(text):
                found.add((str(path.relative_to(ROOT)), text))
    users = ("target/chosen.py", "psutil")  # asks for users and beginnings, which is no memory
    assert found == {("host/memory.py", "/mem"), users}


def test_files_are_opened_through_one_door() -> None:
    found = {each for each in openings() if not KERNEL.search(each[1])}
    expected = set().union(*EXCEPTIONS.values())
    assert sorted(found - expected) == [], "use tracer.opening, or say in EXCEPTIONS why not"
    assert sorted(expected - found) == []


# --- the door ---


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path, 0o777)
    return path


def test_only_a_regular_file_is_opened_and_nothing_is_waited_for(tmp_path: Path, fifo: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/ptmx")
    for path in (str(fifo), "/dev/zero", str(tmp_path / "link")):
        before = len(os.listdir("/dev/pts"))  # to open /dev/ptmx makes a terminal
        with pytest.raises(OSError, match=NOT_REGULAR) as caught:
            opened(path)
        assert (caught.value.filename, len(os.listdir("/dev/pts"))) == (path, before)
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        opened(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="nope"):
        opened("nope")


def test_a_link_is_followed_unless_it_must_not_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert content(str(tmp_path / "link"), 10) == b"text"
    with pytest.raises(OSError, match=NOT_REGULAR):
        content(str(tmp_path / "link"), 10, follow=False)


def test_what_is_read_has_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert len(content(str(path), 3 << 20)) == 3 << 20
    with pytest.raises(OSError, match="it is longer than 1024 bytes"):
        given(str(path), 1024)
    path.write_bytes(b"x" * 1024)
    assert given(str(path), 1024) == b"x" * 1024
    descriptor = os.open(path, os.O_RDONLY)
    assert len(given(descriptor, 1024)) == 1024
    os.close(descriptor)  # it stays the caller's


# --- who goes through it ---


def test_cat_passes_over_what_is_no_file_and_goes_on(fifo: Path) -> None:
    program = f'BEGIN {{ cat("{fifo}"); cat("/dev/zero"); cat("/proc/sys/kernel/ostype"); exit(); }}'
    done = tracer("-q", "-e", program, timeout=10)
    assert (done.status, done.out) == (0, b"Linux\n")
    assert done.err == (
        f"ERROR: failed to open file '{fifo}' (not a regular file)\n"
        "ERROR: failed to open file '/dev/zero' (not a regular file)\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-e", 'import "fifo.bt"; BEGIN { exit(); }'), "error: cannot read fifo.bt: not a regular file\n"),
        (("-e", '#include "fifo"\nBEGIN { exit(); }'), "error: fifo: not a regular file\n"),
        (("-e", "#include <fifo>\nBEGIN { exit(); }", "-I", "."), "error: ./fifo: not a regular file\n"),
        (("--include", "fifo", "-e", "BEGIN { exit(); }"), "error: fifo: not a regular file\n"),
        (("-e", '#include "in/outer.h"\nBEGIN { exit(); }'), "error: in/fifo: not a regular file\n"),
        (("-e", "#include <outer.h>\nBEGIN { exit(); }", "-I", "in"), "error: in/fifo: not a regular file\n"),
        (("--include", "in/device.h", "-e", "BEGIN { exit(); }"), "error: /dev/zero: not a regular file\n"),
        (("-l", "usdt:./fifo:*"), "error: ./fifo: not a regular file\n"),
        (("-l", "uprobe:fifo:*"), "error: fifo: neither a program in PATH nor a library\n"),
        (("-l", "-c", "./fifo", "usdt:*"), "/fifo: cannot be read: not a regular file\n"),
        (("-l", "-c", "./script", "usdt:*"), "error: ./fifo: cannot be read: not a regular file\n"),
        (("/dev/zero",), "error: cannot read /dev/zero: it is longer than 16777216 bytes\n"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_fifo_or_a_device_holds_up_no_start(fifo: Path, words: tuple[str, ...], said: str) -> None:
    os.mkfifo(fifo.with_name("fifo.bt"))
    headers = fifo.with_name("in")
    headers.mkdir()
    os.mkfifo(headers / "fifo")
    (headers / "outer.h").write_text('#include "inner.h"\n')
    (headers / "inner.h").write_text('#include <stdint.h>\n# include "fifo"\n')
    (headers / "device.h").write_text('#include "/dev/zero"\n')
    script = fifo.with_name("script")
    script.write_text("#!./fifo\n")
    script.chmod(0o755)
    path = f"{fifo.parent}:{os.environ['PATH']}"
    done = tracer(*words, env={"PATH": path}, cwd=fifo.parent, timeout=10)
    assert (done.status in (1, 2), done.out) == (True, b"")
    assert said.rstrip("\n") in done.err


def test_a_loaders_cache_that_is_a_fifo_counts_as_none(tmp_path: Path) -> None:
    from tracer.kinds.arch import X86_64
    from tracer.resolve.files.libraries import find_library

    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc" / "ld.so.cache")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libshop.so.1").touch()
    assert find_library("shop", X86_64, str(tmp_path)) == "/lib/libshop.so.1"


def test_settings_that_are_fifos_are_passed_over(tmp_path: Path) -> None:
    from tracer.target import large_pages

    os.mkfifo(tmp_path / "php.ini")
    assert list(large_pages._lines(str(tmp_path / "php.ini"))) == []
    assert not large_pages._holds(str(tmp_path / "php.ini"), b"text")


@pytest.mark.parametrize("words", ["<(echo '{}')", "/dev/stdin < <(echo '{}')", "- < <(echo '{}')"])
def test_a_program_may_come_out_of_a_fifo(words: str) -> None:
    shell = f"exec {sys.executable} -m tracer -q {words.format('BEGIN { print(7); exit(); }')}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=30, cwd=ROOT.parent, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"7", b"")


def test_a_list_of_a_program_reads_its_fifo_once() -> None:
    shell = f"exec {sys.executable} -m tracer -l <(echo 'uprobe:libc:puts {{ print(7); }}')"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=30, cwd=ROOT.parent, check=False)
    assert done.stdout.endswith(b"libc.so.6:puts\n") and done.stderr == b""


def test_ctrl_c_ends_the_wait_for_a_program(fifo: Path) -> None:
    process = subprocess.Popen([sys.executable, "-m", "tracer", str(fifo)], stderr=subprocess.PIPE, cwd=ROOT.parent)
    try:
        # In open(2), until somebody writes: before, it is Python that starts.
        until(lambda: Path(f"/proc/{process.pid}/wchan").read_text() in ("wait_for_partner", "fifo_open"))
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=5 * PATIENCE)[1] == b"tracer: interrupted\n"
        assert process.returncode == 1
    finally:
        process.kill()
        process.wait()
