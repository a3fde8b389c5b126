"""Debug files from debuginfod servers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elf.test_debug_file import names
from tests.unit.resolve.programs import FUNCTIONS_C
from tracer.resolve.elf.debug_file import debug_paths, find_debug_file
from tracer.resolve.elf.file import Elf


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
            self.send_header("Content-Length", str(len(content or b"") + (7 if content == b"cut off" else 0)))
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


@pytest.mark.parametrize("content", [None, b"no ELF file", b"cut off"])
def test_what_no_server_has_is_not_asked_for_again_and_what_is_damaged_is_not_believed(
    app: Path, server: tuple[str, dict[str, bytes], list[str]], content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, files, asked = server
    if content is not None:
        files[f"/buildid/{build_id(app)}/debuginfo"] = content
    monkeypatch.setenv("DEBUGINFOD_URLS", url)
    for _ in range(2):
        with Elf(str(app)) as elf:
            assert find_debug_file(elf) is None
    assert len(asked) == (2 if content == b"cut off" else 1)


def test_a_server_that_says_nothing_is_waited_for_no_longer_than_stated(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "0.5")
        start = time.monotonic()
        assert "helper_two" not in names(app)
        assert time.monotonic() - start < 10


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
