"""The names of system calls, as the kernel's headers number them for each processor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.live.conftest import need
from tracer.kinds.arch import AARCH64, X86_64, Arch, native
from tracer.lang.builtins.data import syscalls
from tracer.lang.builtins.data.syscalls_32 import I386, X32

HEADERS = Path("/usr/include/x86_64-linux-gnu/asm"), Path("/usr/include/asm")


@pytest.mark.parametrize(
    ("arch", "known"),
    [
        (X86_64, {0: "read", 59: "execve", 231: "exit_group", 334: "rseq", 424: "pidfd_send_signal", 462: "mseal"}),
        (AARCH64, {0: "io_setup", 63: "read", 94: "exit_group", 221: "execve", 293: "rseq", 424: "pidfd_send_signal"}),
    ],
)
def test_each_number_has_the_name_of_its_machine(
    monkeypatch: pytest.MonkeyPatch, arch: Arch, known: dict[int, str]
) -> None:
    monkeypatch.setattr(syscalls, "native", lambda: arch)
    syscalls.names.cache_clear()
    found = syscalls.names()
    syscalls.names.cache_clear()
    assert {number: found.word(number) for number in known} == known
    assert found.word(400) == found.word(-1) == "Unknown syscall"
    assert len({name for name, _ in found.members}) == len(found.members)


def of_header(name: str) -> dict[int, str]:
    path = next((folder / name for folder in HEADERS if (folder / name).exists()), None)
    need(path is not None and native() is X86_64, name)
    assert path is not None
    lines = re.findall(r"#define __NR_(\w+) \(?(?:__X32_SYSCALL_BIT \+ )?(\d+)\)?", path.read_text())
    return {int(number): word for word, number in lines}


@pytest.mark.parametrize(
    ("header", "added", "prefix"),
    [("unistd_64.h", 0, ""), ("unistd_32.h", I386, "i386:"), ("unistd_x32.h", X32, "x32:")],
)
def test_each_number_has_the_name_that_the_header_gives_it(header: str, added: int, prefix: str) -> None:
    for number, name in of_header(header).items():
        assert syscalls.names().word(added | number) == prefix + name


def test_the_mode_chooses_the_table() -> None:
    assert [syscalls.names().word(number) for number in (3, I386 | 3, X32 | 3, 1 << 29)] == [
        "close", "i386:read", "x32:close", "Unknown syscall",
    ]  # fmt: skip
