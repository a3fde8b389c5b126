"""Functions that begin with an instruction which the kernel does not probe: said, whoever is traced."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import Done, Running, read_line, target, tell, tracer, tracing, until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64"),
]

CALLED = ("b_lock", "b_nop10", "b_segment", "b_endbr", "b_nop5", "b_push", "b_load")
NEVER_TAKEN = ("b_lock", "b_segment", "x_in", "x_hlt")
"""By any kernel so far; that of nop10 came with Linux 7."""

BYTES = {"b_lock": "f0 48 83 05", "b_segment": "2e 90", "x_in": "ec", "x_hlt": "f4", "b_nop10": "66 2e 0f 1f 84"}

Traced = Callable[[Path, str], Done]


def of_a_command(backend: str, folder: Path, path: Path, program: str) -> Done:
    return tracer("--backend", backend, "-e", program, "-c", f"{path} 50")


def of_a_process(backend: str, folder: Path, path: Path, program: str) -> Done:
    with target(path, "50", "wait") as process:
        assert read_line(process) == "ready"
        with tracing(folder, "--backend", backend, "-p", str(process.pid), "-e", program, ready=None) as running:
            if _attached(running):
                tell(process)
                assert read_line(process).startswith("350 calls")
                assert read_line(process) == "done"
                return running.stop()
            return running.wait()


def _attached(running: Running) -> bool:
    """Once its probes are attached, or it has ended without. What is left out may be said before either."""
    until(lambda: "Attached" in running.err or running.process.poll() is not None, what=lambda: running.err)
    return "Attached" in running.err


def of_everybody(backend: str, folder: Path, path: Path, program: str) -> Done:
    """No process has the file in memory when the probes are attached."""
    with tracing(folder, "--backend", backend, "-e", program, ready=None) as running:
        if not _attached(running):
            return running.wait()
        with target(path, "50") as process:
            assert read_line(process).startswith("350 calls")
        return running.stop()


WAYS = {"-c": of_a_command, "-p": of_a_process, "everybody": of_everybody}


@pytest.mark.parametrize("kind", ["uprobe", "uretprobe"])
@pytest.mark.parametrize("way", WAYS)
def test_of_a_wildcard_each_is_counted_or_said_to_be_left_out(
    way: str, kind: str, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("beginnings")
    done = WAYS[way](backend, tmp_path, path, f"{kind}:{path}:b_* {{ @[func] = count(); }}")
    assert done.status == 0, done.err
    counts = {name: int(count) for name, count in re.findall(r"^@\[(\w+)\]: (\d+)$", done.text, re.MULTILINE)}
    out = set(CALLED) - set(counts)
    assert counts == {name: 50 for name in CALLED if name not in out}
    assert {"b_lock", "b_segment"} <= out <= {"b_lock", "b_segment", "b_nop10"}
    names = [f"{kind}:{path}:{name}" for name in CALLED if name in out]
    where = f"the kernel cannot probe the instruction at {', '.join(names)}"
    assert f"tracer: {len(out)} of 7 places left out: {where}\n" in done.err


@pytest.mark.parametrize("name", NEVER_TAKEN)
@pytest.mark.parametrize("way", WAYS)
def test_one_that_is_named_is_refused_with_its_bytes_and_a_place_that_can_be_probed(
    way: str, name: str, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("beginnings")
    point = f"uprobe:{path}:{name}"
    done = WAYS[way](backend, tmp_path, path, f"{point} {{ @ = count(); }}")
    assert done.status == 1, done.err
    lines = done.err.splitlines()
    text, said = lines if len(lines) == 2 else lines[-2:]
    assert text == f"{point} {{ @ = count(); }}"
    begin = f"{'^' * len(point)} error: {point} cannot be probed: the kernel takes no probe on the instruction there"
    assert said.startswith(f"{begin} ({BYTES[name]}")
    if name == "x_hlt":
        assert said.endswith("; probe what calls it")  # nothing surely follows it
        return
    instead = re.search(r"; probe (uprobe:\S+:0x[0-9a-f]+), behind it, or what calls it$", said)
    assert instead is not None, said
    if name in CALLED:
        other = tracer("--backend", backend, "-e", f"{instead[1]} {{ @ = count(); }}", "-c", f"{path} 50")
        assert (other.status, other.text.splitlines()[-1]) == (0, "@: 50")


def test_its_return_is_refused_too(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("beginnings")
    done = tracer("--backend", backend, "-e", f"uretprobe:{path}:b_lock {{ @ = count(); }}", "-c", f"{path} 5")
    assert (done.status, done.text) == (1, "")
    assert done.err.endswith("; probe what calls it\n")


def test_a_wildcard_of_such_alone_is_an_error(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("beginnings")
    point = f"uprobe:{path}:x_[hi][ln]*"
    done = tracer("--backend", backend, "-e", f"{point} {{ @ = count(); }}", "-c", f"{path} 5")
    assert (done.status, done.text) == (1, "")
    assert "cannot be probed" in done.err


def test_beside_others_that_are_named_it_is_an_error(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("beginnings")
    program = f"uprobe:{path}:b_push, uprobe:{path}:b_lock {{ @ = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 5")
    assert (done.status, done.text) == (1, "")
    assert f"error: uprobe:{path}:b_lock cannot be probed" in done.err
