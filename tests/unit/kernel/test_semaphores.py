"""Where a semaphore lies in a process: the file's layout, and lines of /proc/PID/maps."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tracer.host.maps import Mapping
from tracer.kernel.workers.semaphores import Semaphore, places

PAGE = 0x1000
INODE = 77


@dataclass(frozen=True)
class Load:
    """A PT_LOAD segment."""

    flags: str
    offset: int
    address: int
    size: int


PIE = (
    Load("r--p", 0x0, 0x0, 0x628),
    Load("r-xp", 0x1000, 0x1000, 0x2C1),
    Load("rw-p", 0x2DD0, 0x3DD0, 0x26A),
)
NO_PIE = tuple(Load(each.flags, each.offset, each.address + 0x400000, each.size) for each in PIE)
ONE_BLOCK = (Load("r-xp", 0x0, 0x0, 0x1800), Load("rw-p", 0x1DF0, 0x201DF0, 0x300))
"""As linkers laid files out before 2018: the code first, the data two megabytes on."""


def loaded(loads: tuple[Load, ...], base: int = 0, inode: int = INODE, device: str = "fe:00") -> list[Mapping]:
    """What the kernel and ld.so map: whole pages."""
    found = []
    for load in loads:
        start = (load.address & -PAGE) + base
        end = (load.address + load.size + PAGE - 1 & -PAGE) + base
        found.append(Mapping(start, end, load.flags, load.offset & -PAGE, (device, inode), "/bin/app", False))
    return found


def semaphore(loads: tuple[Load, ...], address: int) -> Semaphore:
    """One at an address of the file, and a probe sixteen bytes into the code."""
    (data,) = [load for load in loads if "w" in load.flags]
    (code,) = [load for load in loads if "x" in load.flags]
    return Semaphore(0xFE00, INODE, address - data.address + data.offset, address, code.offset + 16, code.address + 16)


@pytest.mark.parametrize("at", [0, 0x100, 0x22F, "end"])
@pytest.mark.parametrize(
    ("loads", "base"), [(PIE, 0x55D0_1234_5000), (NO_PIE, 0), (ONE_BLOCK, 0x7F00_0000_0000)], ids=["pie", "exec", "old"]
)
def test_the_address_is_that_of_the_file_at_the_distance_of_the_image(
    loads: tuple[Load, ...], base: int, at: int | str
) -> None:
    data = loads[-1]
    address = data.address + (data.size - 2 if at == "end" else int(at))
    assert list(places(loaded(loads, base), semaphore(loads, address))) == [base + address]


def test_a_semaphore_in_the_last_two_bytes_of_a_mapping_is_found_and_one_that_crosses_its_end_is_not() -> None:
    end = 0x5000
    every = loaded(PIE, 0x10000)
    assert every[-1].end == 0x10000 + end
    assert list(places(every, semaphore(PIE, end - 2))) == [0x10000 + end - 2]
    assert not places(every, semaphore(PIE, end - 1))
    assert not places(every, semaphore(PIE, end))


def test_relocations_made_read_only_split_the_data_and_leave_the_semaphore_writable() -> None:
    head, code, data = loaded(PIE, 0x10000)
    cut = data.start + PAGE
    protected = Mapping(data.start, cut, "r--p", data.offset, data.file, data.path, False)
    rest = Mapping(cut, data.end, "rw-p", data.offset + PAGE, data.file, data.path, False)
    every = [head, code, protected, rest]
    assert list(places(every, semaphore(PIE, 0x4020))) == [0x10000 + 0x4020]
    assert not places(every, semaphore(PIE, 0x3DE0)), "it lies in what is read-only now"


def test_a_program_that_is_loaded_twice_has_two() -> None:
    every = [*loaded(PIE, 0x10000), *loaded(PIE, 0x7F00_0000_0000)]
    assert list(places(every, semaphore(PIE, 0x4020))) == [0x14020, 0x7F00_0000_4020]


def test_a_file_that_is_mapped_to_be_read_or_edited_is_left_alone() -> None:
    whole = Mapping(0x7F11_0000_0000, 0x7F11_0000_4000, "rw-p", 0, ("fe:00", INODE), "/bin/app", False)
    assert not places([whole], semaphore(PIE, 0x4020))
    assert list(places([*loaded(PIE, 0x10000), whole], semaphore(PIE, 0x4020))) == [0x14020]


@pytest.mark.parametrize("permissions", ["r--p", "rw-s", "r-xp", "---p"])
def test_only_a_writable_private_mapping_will_do(permissions: str) -> None:
    head, code, data = loaded(PIE, 0x10000)
    other = Mapping(data.start, data.end, permissions, data.offset, data.file, data.path, False)
    assert not places([head, code, other], semaphore(PIE, 0x4020))


def test_another_file_is_left_alone() -> None:
    assert not places(loaded(PIE, 0x10000, inode=78), semaphore(PIE, 0x4020))
    head, code, data = loaded(PIE, 0x10000)
    elsewhere = Mapping(code.start, code.end, "r-xp", code.offset, ("fe:01", INODE), "/other/app", False)
    assert not places([head, elsewhere, data], semaphore(PIE, 0x4020)), "the code is of another device's file"


def test_code_at_another_distance_is_another_image() -> None:
    head, code, data = loaded(PIE, 0x10000)
    moved = Mapping(code.start + PAGE, code.end + PAGE, "r-xp", code.offset, code.file, code.path, False)
    assert not places([head, moved, data], semaphore(PIE, 0x4020))
