"""Maps of just-in-time code that their writers make long, or write on and on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracer.opening import PIECE
from tracer.resolve.symbols import jit_maps
from tracer.resolve.symbols.jit_maps import JitMaps

START = 0x7F00_0000_0000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf-1.map"


def name(maps: JitMaps, path: Path, address: int) -> tuple[str, int] | None:
    return maps.name(str(path), os.geteuid(), address)


def lines(first: int, count: int) -> str:
    return "".join([f"{START + number * 64:x} 40 function_{number}\n" for number in range(first, first + count)])


def test_a_map_of_many_pieces_is_read_whole(path: Path) -> None:
    count = 100_000
    path.write_text(lines(0, count))
    assert path.stat().st_size > 2 * PIECE
    maps = JitMaps()
    for number in (0, 1, 30_000, 65_432, count - 1):
        assert name(maps, path, START + number * 64 + 5) == (f"function_{number}", 5)
    assert name(maps, path, START - 1) is None and name(maps, path, START + count * 64) is None
    assert maps.cut == set()


def test_a_map_that_grows_is_read_on_and_of_equal_starts_the_last_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit_maps, "_SLOW_S", 60.0)
    maps, count = JitMaps(), 40_000
    path.write_text(lines(0, count) + f"{START + count * 64:x} 4")  # a line that is being written
    assert name(maps, path, START + count * 64) is None
    for number in range(count, count + 50):
        with path.open("a") as file:
            file.write(f"0 again\n{START:x} 40 replaced_{number}\n{START + (number + 1) * 64:x} 4")
        assert name(maps, path, START + number * 64) == ("again", 0)
        assert name(maps, path, START) == (f"replaced_{number}", 0)
    (known,) = maps._maps.values()
    assert len(known._blocks) < 5
    path.write_text(f"{START:x} 40 another\n")
    assert name(maps, path, START) == ("another", 0)
    assert name(maps, path, START + 640) is None


def test_who_hurries_waits_for_no_long_map(path: Path) -> None:
    path.write_text(lines(0, 100_000))
    pieces = 0

    def hurries() -> bool:
        nonlocal pieces
        pieces += 1
        return pieces > 2

    maps = JitMaps(hurries)
    assert path.stat().st_size > 2 * PIECE
    assert name(maps, path, START + 64) == ("function_1", 0)
    assert name(maps, path, START + 99_999 * 64) is None
    assert pieces == 3


def test_lines_that_say_nothing_are_passed_over(path: Path) -> None:
    path.write_bytes(
        b"\n \nnonsense\n-10 10 negative\n%x 10\n%x zz bad\n%x 10 \n%x 10 a\x1b[31m\xff b\n0x%x 0x10 with 0x"
        % ((START,) * 4 + (START + 64,))
    )
    maps = JitMaps()
    assert name(maps, path, START + 1) == ("a\\x1b[31m\\xff b", 1)
    assert name(maps, path, START + 64) == ("with 0x", 0)


@pytest.mark.parametrize("size", [1000, 1 << 20, 3 << 20])
def test_a_long_name_is_cut(path: Path, size: int) -> None:
    path.write_text(f"{START:x} 40 {'é' * (size // 2)}\n{START + 64:x} 40 next\n")
    maps = JitMaps()
    found = name(maps, path, START)
    assert found == (("é" * 500) if size == 1000 else "é" * 512 + "…", 0)
    assert name(maps, path, START + 64) == ("next", 0)


def test_of_a_map_that_is_too_long_the_end_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_maps, "MOST_BYTES", 2 * PIECE)
    count = 100_000
    path.write_text(lines(0, count))
    maps = JitMaps()
    assert name(maps, path, START + (count - 1) * 64) == (f"function_{count - 1}", 0)
    assert name(maps, path, START) is None
    assert maps.cut == {str(path)}


def test_a_fifo_or_a_link_is_no_map(path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    assert name(JitMaps(), path, START) is None
    path.unlink()
    (tmp_path / "other").write_text(lines(0, 1))
    path.symlink_to("other")
    assert name(JitMaps(), path, START) is None


READER = """
import os, re, sys, time
from tracer.resolve.symbols.jit_maps import JitMaps

def most_memory():  # the resident set at its largest, in kB, of this program alone
    return int(re.search("VmHWM:\\s*([0-9]+)", open("/proc/self/status").read())[1])

before, begun = most_memory(), time.process_time()
print(JitMaps().name(sys.argv[1], os.geteuid(), int(sys.argv[2])))
print(most_memory() - before, time.process_time() - begun)
"""


def test_a_quarter_of_a_gigabyte_takes_little_memory_and_time(path: Path) -> None:
    """234 MB took 3 GB and 24 s."""
    block = lines(0, 23_000).encode()
    with path.open("wb") as file:
        while file.tell() < 234_000_000:
            file.write(block)
        file.write(lines(50_000, 1).encode())
    done = subprocess.run(
        [sys.executable, "-c", READER, path, str(START + 50_000 * 64)], capture_output=True, text=True, check=True
    )
    found, _, numbers = done.stdout.partition("\n")
    kilobytes, seconds = map(float, numbers.split())
    assert found == "('function_50000', 0)"
    assert 0 < kilobytes < 64_000 and seconds < 5


def test_a_map_whose_writer_is_faster_than_its_reader_takes_a_part_of_the_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit_maps, "_SLOW_S", 0.0)
    monkeypatch.setattr(jit_maps, "_REST", 1000)
    path.write_text(lines(0, 1000))
    maps = JitMaps()
    assert name(maps, path, START) == ("function_0", 0)
    path.write_text(lines(0, 40_000))
    assert name(maps, path, START + 30_000 * 64) == ("function_30000", 0)  # the first time says nothing of the writer
    path.write_text(lines(0, 80_000))
    assert name(maps, path, START + 70_000 * 64) is None
    assert name(maps, path, START + 30_000 * 64) == ("function_30000", 0)
    next(iter(maps._maps.values()))._rests_until = 0.0
    assert name(maps, path, START + 70_000 * 64) == ("function_70000", 0)


def test_a_map_is_read_as_far_as_it_was_when_that_was_looked_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that adds as much at each read would have it read for ever."""
    path.write_text(lines(0, 100_000))
    reads, pread = [], os.pread

    def growing(descriptor: int, size: int, at: int) -> bytes:
        with path.open("a") as file:
            file.write(lines(0, 40_000))
        reads.append(size)
        return pread(descriptor, size, at)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", growing)
        assert name(JitMaps(), path, START + 64) == ("function_1", 0)
    assert len(reads) == 5  # the head, three pieces, the line
