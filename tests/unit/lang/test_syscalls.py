"""The names of system calls, as the kernel's headers number them for each processor."""

from __future__ import annotations

import pytest

from tracer.kinds.arch import AARCH64, X86_64, Arch
from tracer.lang.builtins.data import syscalls


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
