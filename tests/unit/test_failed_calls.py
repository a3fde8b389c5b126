"""Errors of calls name the call and what it was on, where Python's do not."""

from __future__ import annotations

import os
import resource
import socket
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from tracer import failed_calls
from tracer.failed_calls import described
from tracer.kernel.syscall import call as system_call, number_of


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of this file counts as tracer's."""
    monkeypatch.setattr(failed_calls, "_PACKAGE", str(Path(__file__).parent))


class Holder:
    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self) -> bytes:
        found = os.pread(
            self.fd,
            8,
            -1,
        )
        return found


def test_a_call_on_a_descriptor_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Invalid argument") as failed:
            Holder(fd).read()
        assert described(failed.value) == f"pread of {tmp_path}/a: Invalid argument"
    finally:
        os.close(fd)


def test_a_call_on_a_path_names_both() -> None:
    with pytest.raises(OSError, match="No such") as failed:
        os.open("/none", os.O_RDONLY)
    assert described(failed.value) == "open of /none: No such file or directory"
    with pytest.raises(OSError, match="No such") as failed:
        Path("/none").read_text()
    assert described(failed.value) == "open of /none: No such file or directory"
    with pytest.raises(OSError, match="No such") as failed:
        Path("/none").stat()
    assert described(failed.value) == "stat of /none: No such file or directory"


def test_a_module_that_cannot_be_read_is_named() -> None:
    """Python's loader says the error alone."""
    path = "/proc/self/mem"  # where nothing is mapped at 0
    with pytest.raises(OSError, match="error") as failed:
        SourceFileLoader("shop", path).get_data(path)
    assert failed.value.filename is None
    assert described(failed.value) == f"read of {path}: Input/output error"


def test_where_no_descriptor_is_left_for_the_source_either_it_was_an_open() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="Too many") as failed:
            os.listdir("/usr")
        assert described(failed.value) == "open of /usr: Too many open files"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_call_on_something_else_is_named_alone() -> None:
    with socket.socket() as own, pytest.raises(OSError, match="not connected") as failed:
        own.recv(1)
    assert described(failed.value) == "recv: Transport endpoint is not connected"


def test_a_system_call_that_python_lacks_has_its_name() -> None:
    with pytest.raises(OSError, match=r"Invalid|Bad|permitted") as failed:
        system_call(number_of("perf_event_open"), 0, 0, 0, 0, 1 << 20)
    assert described(failed.value).startswith("perf_event_open: ")


def test_a_source_that_cannot_be_read_leaves_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="Bad file") as failed:
        os.fsync(1 << 20)
    monkeypatch.setattr(failed_calls, "_running", lambda *_: "")
    assert described(failed.value) == "Bad file descriptor"
