"""Leases on files, and who asks for them back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cli import until
from tracer.host import leases
from tracer.host.leases import Leases

PATIENCE_S = 60.0


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    handler = signal.getsignal(signal.SIGIO)
    path = tmp_path / "file"
    path.write_bytes(b"old")
    yield path
    signal.signal(signal.SIGIO, handler)


def told() -> tuple[Leases, list[bool]]:
    found: list[bool] = []
    return Leases(lambda: found.append(True)), found


def python(text: str, path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", f"import os, sys; path = sys.argv[1]; {text}", path])


WRITERS = {
    "overwrites it": "open(path, 'wb').write(b'new')",
    "opens it to read and write, and writes nothing": "os.open(path, os.O_RDWR)",
    "cuts it": "os.truncate(path, 0)",
}


@pytest.mark.parametrize("who", WRITERS)
def test_is_told_and_waits_who(who: str, file: Path) -> None:
    made, found = told()
    with made:
        made.take([str(file)])
        assert made.refused == {} and found == []
        with python(WRITERS[who], file) as writer:
            while not found:
                assert writer.poll() is None, "it did not wait"
                time.sleep(0.01)
            assert (made.wanted, found, file.read_bytes()) == (str(file), [True], b"old")
            made.release()
            assert writer.wait(PATIENCE_S) == 0


def _replace(path: Path) -> None:
    path.with_name("new").write_bytes(b"new")
    path.with_name("new").rename(path)


@pytest.mark.parametrize("deed", [Path.unlink, _replace, Path.read_bytes, lambda path: path.chmod(0o700)])
def test_what_does_not_write_the_file_is_not_told(deed: Callable[[Path], object], file: Path) -> None:
    made, found = told()
    with made:
        made.take([str(file)])
        deed(file)
        made._look()
        assert (made.refused, made.wanted, found) == ({}, None, [])


def test_who_will_not_wait_is_refused_and_told(file: Path) -> None:
    made, found = told()
    with made:
        made.take([str(file)])
        with pytest.raises(BlockingIOError):
            os.open(file, os.O_WRONLY | os.O_NONBLOCK)
        until(lambda: bool(found))
        assert (made.wanted, found) == (str(file), [True])


def test_works_in_any_thread_and_changes_no_handler(file: Path) -> None:
    before = signal.getsignal(signal.SIGCONT)
    faults: list[object] = []

    def take() -> None:
        made, found = told()
        with made:
            made.take([str(file)])
            with python(WRITERS["cuts it"], file) as writer:
                until(lambda: bool(found))
                made.release()
                faults.append(writer.wait(PATIENCE_S))

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert (faults, signal.getsignal(signal.SIGCONT)) == ([0], before)


def test_a_file_that_is_open_for_writing_or_is_none_has_no_lease(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MOST", 1)
    more = [file.with_name(name) for name in "ab"]
    for path in more:
        path.write_bytes(b"")
    made, found = told()
    with file.open("ab"), made:
        made.take([str(file), str(file) + ".none", *map(str, more)])
    assert found == []
    assert made.refused == {
        str(file): "it is open for writing",
        str(file) + ".none": "No such file or directory",
        str(more[1]): "1 files have one",
    }


def test_two_have_a_lease_each_and_a_writer_waits_for_both(file: Path) -> None:
    one, two = Leases(lambda: None), Leases(lambda: None)
    with one, two:
        one.take([str(file)])
        two.take([str(file)])
        with python("open(path, 'wb').write(b'new')", file) as writer:
            while two.wanted is None:
                time.sleep(0.01)
            one._look()
            assert one.wanted == two.wanted == str(file)
            one.release()
            assert file.read_bytes() == b"old" and writer.poll() is None
            two.release()
            assert writer.wait(PATIENCE_S) == 0
    assert file.read_bytes() == b"new"


def test_a_descriptor_in_a_forked_process_keeps_nobody_waiting(file: Path) -> None:
    made, _ = told()
    made.take([str(file)])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    made.release()
    os.open(file, os.O_WRONLY | os.O_NONBLOCK)
    os.close(write)
    os.waitpid(child, 0)


def test_tells_a_file_of_whose_name_there_is_another(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(b"new")
    made, found = told()
    with made:
        made.take([str(file), str(other)])
        assert made.replaced() == []
        os.rename(other, file)
        assert (made.replaced(), found) == ([str(file)], [])
