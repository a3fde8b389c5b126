"""Results on their way out: when they are written, and what a slow reader, or one that left, changes."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracer import errors
from tracer.cli.tracing import output as output_module
from tracer.cli.tracing.output import PIECE, Output, Words
from tracer.errors import TracerError
from tracer.tracing.loop import Controls

CAPACITY = 65536  # of a pipe, in bytes (pipe(7))


class Pipe:
    def __init__(self) -> None:
        self.read, self.write = os.pipe()

    def taken(self) -> bytes:
        """What can be read now."""
        found = b""
        while select.select([self.read], [], [], 0)[0] and (part := os.read(self.read, 1 << 20)):
            found += part
        return found

    def leave(self) -> None:
        """The reader goes."""
        os.close(self.read)
        self.read = -1

    def close(self) -> None:
        for descriptor in (self.read, self.write):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


@pytest.fixture(params=["reopened", "shared"])
def shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: the pipe opened anew for us alone, and the descriptor that others have too."""
    if request.param == "shared":
        monkeypatch.setattr(output_module, "_reopened", lambda descriptor: -1)


@pytest.mark.parametrize(
    ("buffering", "written", "flushed"),
    [("none", b"a\n", b"a\n"), ("line", b"", b"a\n"), ("full", b"", b"")],
)
def test_when_a_result_is_written(buffering: str, written: bytes, flushed: bytes, pipe: Pipe, shared: None) -> None:
    with Output(pipe.write, "stdout", buffering, Controls()) as out:
        out.write(b"a\n")
        assert pipe.taken() == written
        out.flush()
        assert written + pipe.taken() == flushed
        out.finish()
        assert flushed + pipe.taken() == b"a\n"


@pytest.mark.parametrize("buffering", ["line", "full"])
def test_no_more_than_a_piece_waits(buffering: str, pipe: Pipe) -> None:
    with Output(pipe.write, "stdout", buffering, Controls()) as out:
        out.write(b"a" * (PIECE - 1))
        assert pipe.taken() == b""
        out.write(b"b")
        assert len(pipe.taken()) == PIECE


def test_a_reader_that_is_slow_gets_everything_and_the_session_is_looked_after_meanwhile(
    pipe: Pipe, shared: None
) -> None:
    data = os.urandom(3 * CAPACITY)
    found: list[bytes] = []
    looked = threading.Event()
    with Output(pipe.write, "stdout", "line", Controls(meanwhile=looked.set)) as out:

        def read() -> None:
            looked.wait(20)
            while sum(map(len, found)) < len(data):
                found.append(os.read(pipe.read, 1000))

        reader = threading.Thread(target=read)
        reader.start()
        out.write(data)
        out.flush()
        reader.join(20)
        assert looked.is_set()
    assert b"".join(found) == data


def test_the_pipe_of_others_stays_a_blocking_one(pipe: Pipe, shared: None) -> None:
    with Output(pipe.write, "stdout", "line", Controls()):
        assert not fcntl.fcntl(pipe.write, fcntl.F_GETFL) & os.O_NONBLOCK
    os.write(pipe.write, b"still open")


def test_a_signal_while_nobody_reads_gives_the_trace_back_and_loses_nothing(pipe: Pipe, shared: None) -> None:
    controls = Controls()
    data = os.urandom(2 * CAPACITY)
    with Output(pipe.write, "stdout", "line", controls) as out:

        def stop() -> None:
            controls.stop = True

        controls.meanwhile = stop
        out.write(data)
        out.write(b"more")
        controls.detached = True
        found = b""

        def read() -> None:
            nonlocal found
            found += pipe.taken()

        controls.meanwhile = read
        out.finish()
        assert found + pipe.taken() == data + b"more"
        assert out.left_out == 0


@pytest.mark.parametrize("why", ["a second signal", "patience"])
def test_what_nobody_takes_in_the_end_is_left_out_and_counted(
    why: str, pipe: Pipe, shared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_module, "PATIENCE_S", 0.05)
    controls = Controls(stop=True, detached=True)
    with Output(pipe.write, "stdout", "line", controls) as out:

        def hurry() -> None:
            controls.hurry = True

        if why == "a second signal":
            monkeypatch.setattr(output_module, "PATIENCE_S", 60.0)
            controls.meanwhile = hurry
        out.write(b"x" * (2 * CAPACITY))
        out.write(b"y" * PIECE)
        assert controls.hurry
        assert out.left_out + len(pipe.taken()) == 2 * CAPACITY + PIECE
        out.write(b"what there is room for")
        out.finish()
        assert pipe.taken() == b"what there is room for"


def test_a_reader_that_left_wakes_the_trace_and_ends_it(pipe: Pipe, shared: None) -> None:
    controls = Controls()
    with Output(pipe.write, "stdout", "line", controls) as out:
        assert select.select(controls.wake, [], [], 0)[0] == []
        out.flush()
        pipe.leave()
        assert select.select(controls.wake, [], [], 0)[0] == list(controls.wake)
        with pytest.raises(BrokenPipeError):
            out.flush()
    assert controls.wake == ()


@pytest.mark.parametrize("buffering", ["line", "none"])
def test_writing_to_a_reader_that_left_is_a_broken_pipe(buffering: str, pipe: Pipe, shared: None) -> None:
    pipe.leave()
    with Output(pipe.write, "stdout", buffering, Controls()) as out, pytest.raises(BrokenPipeError):
        out.write(b"x")
        out.finish()


def test_a_socket_is_written_as_far_as_it_has_room(shared: None) -> None:
    ours, theirs = socket.socketpair()
    controls = Controls(stop=True)
    with ours, theirs, Output(ours.fileno(), "stdout", "line", controls) as out:
        out.write(b"x" * (1 << 20))
        assert 0 < len(theirs.recv(1 << 20)) < 1 << 20
        theirs.close()
        assert select.select(controls.wake, [], [], 0)[0] == list(controls.wake)


def test_a_file_is_written_at_its_position(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"before ")
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
    with Output(descriptor, "stdout", "line", Controls()) as out:
        out.write(b"x" * (3 * PIECE))
        out.finish()
    os.close(descriptor)
    assert file.read_bytes() == b"before " + b"x" * (3 * PIECE)


def test_what_cannot_be_written_is_said_with_its_name() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with Output(full, "results", "line", Controls()) as out, pytest.raises(TracerError) as raised:
        out.write(b"x" * PIECE)
    os.close(full)
    assert raised.value.message == "cannot write results: No space left on device"
    with pytest.raises(TracerError, match="cannot write stdout: Bad file descriptor"):
        Output(full, "stdout", "line", Controls())


def test_words_reach_stderr_and_no_other_file_of_its_number(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with Words(Controls()) as words:
        words.say("heard\n")
    monkeypatch.setattr("sys.stderr", None)  # it was closed when we began
    with Words(Controls()) as words:
        words.say("not heard\n")
    assert capfd.readouterr().err == "heard\n"


def test_what_is_told_of_waits_during_a_trace_waits_for_no_reader() -> None:
    heard: list[str] = []
    kept, pipe = os.dup(2), Pipe()
    controls = Controls(stop=True)
    os.dup2(pipe.write, 2)
    try:
        with errors.Heard(heard.append):
            with Words(controls) as words:
                for _ in range(2 * CAPACITY // 1000):
                    errors.tell("\x1b" * 240)  # printed as 960 letters
                controls.detached = controls.hurry = True
                words.finish()
            errors.tell("afterwards")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    assert pipe.taken().startswith(b"tracer: \\x1b\\x1b")
    assert heard == ["afterwards"]
    pipe.close()
