"""Debug files from debuginfod servers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import tracer as library
from tests.harness.cli import PATIENCE, PATIENCE_S, ROOT, tracer, until
from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elf.test_debug_file import names
from tests.unit.resolve.programs import FUNCTIONS_C
from tracer.errors import Heard
from tracer.resolve.binary import Binary
from tracer.resolve.elf import debuginfod
from tracer.resolve.elf.debug_file import debug_paths, find_debug_file
from tracer.resolve.elf.file import Elf

CUT = b"\x7fELF, cut off"


@pytest.fixture
def app(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stripped program; its debug file is `served/app.debug`."""
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "5")
    path = Path(shutil.copy2(build(FUNCTIONS_C, "-O1", "-g", "-Wl,--build-id=sha1"), tmp_path / "app"))
    (tmp_path / "served").mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", path, tmp_path / "served" / "app.debug"], check=True)
    subprocess.run(["strip", "--strip-all", path], check=True)
    return path


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is said of servers. Nothing is known of any at the start."""
    lines: list[str] = []
    monkeypatch.setattr(debuginfod, "_failed", set())
    with Heard(lines.append):
        yield lines


def build_id(path: Path) -> str:
    with Elf(str(path)) as elf:
        return elf.build_id or ""


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, bytes], list[str]]]:
    """Its address, what it has by path, and what it was asked."""
    files: dict[str, bytes] = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"") + (7 if content == CUT else 0)))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}", files, asked
    running.shutdown()
    running.server_close()


def test_nothing_is_asked_unless_servers_are_named(app: Path) -> None:
    assert "helper_two" not in names(app)
    assert not (app.parent / "cache").exists()


def test_a_debug_file_is_fetched_once_and_lies_where_elfutils_has_it(
    app: Path, server: tuple[str, dict[str, bytes], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, files, asked = server
    number = build_id(app)
    files[f"/buildid/{number}/debuginfo"] = (app.parent / "served" / "app.debug").read_bytes()
    monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:1 {url}/")
    assert "helper_two" in names(app)
    assert "helper_two" in names(app)
    assert asked == [f"/buildid/{number}/debuginfo"]
    cached = app.parent / "cache" / number / "debuginfo"
    assert cached.read_bytes() == files[asked[0]] and os.listdir(cached.parent) == ["debuginfo"]
    with Elf(str(app)) as elf:
        assert debug_paths(elf)[-1] == str(cached)


@pytest.mark.parametrize("content", [None, b"no ELF file", CUT, "another"])
def test_what_no_server_has_is_not_asked_for_again_and_what_is_damaged_is_not_kept(
    app: Path, server: tuple[str, dict[str, bytes], list[str]], content: bytes | str | None, said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    url, files, asked = server
    if content is not None:
        files[f"/buildid/{build_id(app)}/debuginfo"] = (
            Path("/bin/true").read_bytes() if isinstance(content, str) else content
        )
    monkeypatch.setenv("DEBUGINFOD_URLS", url)
    for _ in range(2):
        for _ in range(2):
            with Elf(str(app)) as elf:
                assert find_debug_file(elf) is None
        debuginfod._failed.clear()  # as in another run
    assert len(asked) == (1 if content is None else 2)
    kept = app.parent / "cache" / build_id(app)
    assert os.listdir(kept) == (["debuginfo"] if content is None else [])
    reason = "the file was cut off" if content == CUT else "it sent something else"
    line = f"no debug file of {app} from {url}: {reason}; what only that tells is missing"
    assert said == ([] if content is None else [line] * 2)


@pytest.mark.parametrize("sends", ["nothing", "drops of the head", "drops", "garbage", "zeros behind an ELF header"])
def test_a_server_that_comes_to_no_end_is_left_and_that_is_said(
    app: Path, sends: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "1.5")
    monkeypatch.setenv("DEBUGINFOD_MAXSIZE", "50000000")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        threading.Thread(target=answer, args=(listening, sends), daemon=True).start()
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        begun = time.monotonic()
        for _ in range(2):
            with Elf(str(app)) as elf:
                assert find_debug_file(elf) is None
        assert time.monotonic() - begun < 8 * PATIENCE
    assert os.listdir(app.parent / "cache" / build_id(app)) == []
    reason = {
        "garbage": "it sent something else",
        "zeros behind an ELF header": "it sent more than 50000000 bytes (DEBUGINFOD_MAXSIZE)",
        "drops": "less than 100 kB within 1.5 s (DEBUGINFOD_TIMEOUT)",
    }.get(sends, "no answer within 1.5 s (DEBUGINFOD_TIMEOUT)")
    waiting = f"waiting for {url}: the debug file of {app}"
    assert said[-1] == f"no debug file of {app} from {url}: {reason}; what only that tells is missing"
    assert said[:-1] == [waiting] if "within" in reason else said[:-1] in ([], [waiting])


def answer(listening: socket.socket, sends: str) -> None:
    """Answers one question until nobody listens."""
    connection, _ = listening.accept()
    with connection, suppress(OSError):
        if sends == "nothing":
            connection.recv(1 << 16)
            connection.recv(1)
            return
        head = b"HTTP/1.1 200 OK\r\n"
        pause, piece = (0.2, b"x") if "drops" in sends else (0, b"garbage " * 8192)
        if sends != "drops of the head":
            head += b"\r\n" + (b"\x7fELF" if sends != "garbage" else b"")
            piece = piece if sends == "garbage" else bytes(1 if pause else 65536)
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            time.sleep(pause)


def test_sites_are_not_kept_where_a_server_might_have_told_more(
    app: Path, server: tuple[str, dict[str, bytes], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server[0]
    for urls, kept in ((url, True), (f"{url} http://127.0.0.1:1", False)):
        monkeypatch.setenv("DEBUGINFOD_URLS", urls)
        binary = Binary(str(app))
        assert binary.debug_file(binary.elf) is None
        assert binary.reproducible == kept
        shutil.rmtree(app.parent / "cache")


def test_a_signal_ends_the_wait(app: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a trace its handler raises something; during one it says so by what `cli` puts here."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        begun = time.monotonic()
        with Heard(None, lambda: time.monotonic() - begun > 0.5):
            assert debuginfod.fetched(build_id(app), "app") is None
        assert time.monotonic() - begun < 3 * PATIENCE
        assert said == [f"no debug file of app from {url}: the trace was to end; what only that tells is missing"]
        debuginfod._failed.clear()
        process = subprocess.Popen(
            [sys.executable, "-m", "tracer", "-l", f"uprobe:{app}:helper_two"], stderr=subprocess.PIPE, cwd=ROOT
        )
        assert process.stderr is not None
        assert process.stderr.readline() == f"tracer: waiting for {url}: the debug file of {app}\n".encode()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=3 * PATIENCE)[1] == b"tracer: interrupted\n"
        assert os.listdir(app.parent / "cache" / build_id(app)) == []


def test_two_at_once_hear_of_their_own_files_and_each_ends_itself(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {"one": threading.Event(), "two": threading.Event()}
    heard: dict[str, list[str]] = {"one": [], "two": []}

    def wait(name: str) -> None:
        with Heard(heard[name].append, ends[name].is_set):
            assert debuginfod.fetched(build_id(app), name) is None

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        threads = {name: threading.Thread(target=wait, args=(name,)) for name in ends}
        for thread in threads.values():
            thread.start()
        until(lambda: all(heard.values()))  # both wait for it
        ends["one"].set()
        threads["one"].join(PATIENCE_S)
        assert threads["two"].is_alive() and not threads["one"].is_alive()
        ends["two"].set()
        threads["two"].join(PATIENCE_S)
    for name, lines in heard.items():
        assert lines == [
            f"waiting for {url}: the debug file of {name}",
            f"no debug file of {name} from {url}: the trace was to end; what only that tells is missing",
        ]


def test_the_library_has_it_with_the_error_that_it_may_explain(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1")
    for ask in (library.trace, library.check):
        debuginfod._failed.clear()
        with pytest.raises(library.ProgramError) as caught:
            ask(f"uprobe:{app}:helper_two {{ @ = count(); }}")
        (line,) = caught.value.missing
        assert line.startswith(f"no debug file of {app} from http://127.0.0.1:1: ")
        assert "helper_two" in str(caught.value)


def test_what_is_missing_for_that_reason_is_said_beside_the_error(app: Path, build: Build) -> None:
    app.unlink()
    built = build(FUNCTIONS_C, "-O1", "-g", "-Wl,--build-id=sha1")
    subprocess.run(["strip", "--strip-debug", "-o", app, built], check=True)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = {"DEBUGINFOD_URLS": url, "DEBUGINFOD_TIMEOUT": "1.5"}
        program = f"uprobe:{app}:main {{ @ = ((struct req *)arg0)->size; }}"
        done = tracer("-q", "--dry-run", "-e", program, env=env)
    assert done.status == 2
    lines = done.err.splitlines()
    assert lines[:2] == [
        f"tracer: waiting for {url}: the debug file of {app}",
        f"tracer: no debug file of {app} from {url}: no answer within 1.5 s (DEBUGINFOD_TIMEOUT); "
        "what only that tells is missing",
    ]
    assert "error: 'struct req' is not declared" in done.err


def test_a_server_that_says_nothing_is_waited_for_no_longer_than_stated(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "0.5")
        start = time.monotonic()
        assert "helper_two" not in names(app)
        assert time.monotonic() - start < 10 * PATIENCE


@pytest.mark.skipif(
    shutil.which("debuginfod") is None and os.environ.get("CI") != "true", reason="debuginfod is not installed"
)
def test_elfutils_own_server(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["debuginfod", "-d", ":memory:", "-p", str(port), "-F", str(app.parent / "served")]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until:
                try:
                    urllib.request.urlopen(f"{url}/buildid/{build_id(app)}/debuginfo", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            monkeypatch.setenv("DEBUGINFOD_URLS", url)
            assert "helper_two" in names(app)
        finally:
            process.kill()
