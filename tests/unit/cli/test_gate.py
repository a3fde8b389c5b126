"""The code in which the child of -c waits: its bytes are those of this source, and what it lacks is said."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tracer.host.polling import reaped
from tracer.target import gate
from tracer.target.child import Child

SOURCES = {
    "x86_64": """
        .intel_syntax noprefix
        push rbp; mov ebx, edi; mov r12d, esi; mov r13, rdx; mov r14, rcx; mov r15, r8
        next: mov rdi, [r9]; test rdi, rdi; jz given
        mov rsi, [r9 + 8]; mov edx, 4; mov eax, 28; syscall             # madvise: MADV_DONTNEED
        add r9, 16; jmp next
        given:
        mov eax, 1; mov edi, r12d; mov rsi, rsp; mov edx, 1; syscall    # write: it waits
        test rax, rax; js failed
        xor eax, eax; mov edi, ebx; mov rsi, rsp; mov edx, 1; syscall   # read: may it exec?
        xor edi, edi; test rax, rax; jz leave; js failed
        mov eax, 59; mov rdi, r13; mov rsi, r14; mov rdx, r15; syscall  # execve
        failed: mov [rsp], rax
        mov eax, 1; mov edi, r12d; mov rsi, rsp; mov edx, 8; syscall    # write: why not
        mov edi, 127
        leave: mov eax, 231; syscall                                    # exit_group
    """,
    "aarch64": """
        mov w19, w0; mov w20, w1; mov x21, x2; mov x22, x3; mov x23, x4; sub sp, sp, #16
        next: ldp x0, x1, [x5], #16; cbz x0, given
        mov x2, #4; mov x8, #233; svc #0; b next
        given:
        mov x8, #64; mov w0, w20; mov x1, sp; mov x2, #1; svc #0
        tbnz x0, #63, failed
        mov x8, #63; mov w0, w19; mov x1, sp; mov x2, #1; svc #0
        cbz x0, leave; tbnz x0, #63, failed
        mov x8, #221; mov x0, x21; mov x1, x22; mov x2, x23; svc #0
        failed: str x0, [sp]
        mov x8, #64; mov w0, w20; mov x1, sp; mov x2, #8; svc #0
        mov x0, #127
        leave: mov x8, #94; svc #0
    """,
}
ASSEMBLERS = {"x86_64": ("llvm-mc", "--arch=x86-64"), "aarch64": ("llvm-mc", "--arch=aarch64")}


@pytest.mark.parametrize("machine", SOURCES)
def test_the_code_is_what_its_source_assembles_to(machine: str, tmp_path: Path) -> None:
    if shutil.which("llvm-mc") is None:
        pytest.skip("llvm-mc is needed")
    source, made, code = tmp_path / "gate.s", tmp_path / "gate.o", tmp_path / "gate"
    source.write_text(SOURCES[machine].replace(";", "\n"))
    subprocess.run([*ASSEMBLERS[machine], "--filetype=obj", "-o", made, source], check=True)
    subprocess.run(["llvm-objcopy", "-O", "binary", "-j", ".text", made, code], check=True)
    assert code.read_bytes().hex() == gate._CODE[machine]


def test_without_such_code_the_child_waits_in_python_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_CODE", {})
    with Child(["/bin/sh", "-c", "exit 3"]) as child:
        assert child.in_python == "Function not implemented"
        child.start()
        while not child.ended():
            pass
    assert child.failure() == "/bin/sh ended with status 3"


def _gate(go: int, report: int) -> int | None:
    """The exit status of a process that waits so; None where it goes on waiting."""
    code, pid = gate.Gate(), os.fork()
    if pid == 0:
        code.wait_and_exec(go, report, "/bin/true", ["true"])
    status = reaped(pid, 5)
    if status is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return None if status is None else os.waitstatus_to_exitcode(status)


def test_a_gate_that_cannot_say_that_it_waits_does_not_wait() -> None:
    """The other side would wait for its word, and it for an order."""
    go, order = os.pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    assert _gate(go, full) == 127
    for fd in (go, order, full):
        os.close(fd)


def test_a_gate_that_cannot_read_its_order_says_why() -> None:
    answer, report = os.pipe()
    assert _gate(1 << 20, report) == 127
    assert os.read(answer, 64)[1:] == (-errno.EBADF).to_bytes(8, sys.byteorder, signed=True)
    os.close(answer)
    os.close(report)


def test_a_child_that_waits_has_given_back_the_memory_of_the_interpreter() -> None:
    with Child(["/bin/true"]) as child:
        child.wait()
        facts = Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines()
        own_kb = next(int(line.split()[1]) for line in facts if line.startswith("Anonymous:"))
        assert own_kb < 4_000  # ours is many times that, and each page that we change would be kept for it
        child.start()
        while not child.ended():
            pass
    assert child.failure() is None


def test_a_command_of_a_thread_runs_too() -> None:
    """The stack of a thread lies where the interpreter's memory does."""
    ended: list[str | None] = []

    def run() -> None:
        with Child(["/bin/sh", "-c", "exit 4"]) as child:
            child.start()
            while not child.ended():
                pass
        ended.append(child.failure())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ended == ["/bin/sh ended with status 4"]


def test_the_command_has_our_words_and_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OF_TRACER", "a b=c\udcff")
    out = tmp_path / "out"
    script = f'printf "%s|" "$OF_TRACER" "$@" > {out}'
    with Child(["/bin/sh", "-c", script, "sh", "", "ü\udcfe", "x y"]) as child:
        assert child.in_python is None
        child.start()
        while not child.ended():
            pass
    assert out.read_bytes() == b"a b=c\xff||\xc3\xbc\xfe|x y|"
