from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.resolve.elfwriter import TEXT_ADDRESS, ElfWriter
from tracer.resolve.binary import Binary
from tracer.resolve.functions.lookup import find_functions
from tracer.resolve.safety.own_return import reads_own_return
from tracer.resolve.safety.returns import ReturnPlan, plan_return

KEEPS = b"\x48\x89\x1f\x48\x8b\x04\x24\x48\x89\x47\x38\xc3"  # mov %rbx,(%rdi); mov (%rsp),%rax; mov %rax,56(%rdi); ret


def written(tmp_path: Path, code: bytes) -> Binary:
    writer = ElfWriter(text=code.ljust(128, b"\xcc"), symbols=[("f", TEXT_ADDRESS, len(code), 0x12)])
    return Binary(str(writer.write(tmp_path / "elf")), "file")


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        (KEEPS, True),
        (b"\xf3\x0f\x1e\xfa\x4c\x8b\x1c\x24\xc3", True),  # endbr64; mov (%rsp),%r11
        (b"\xff\x34\x24\x8f\x07\xc3", True),  # push (%rsp); pop (%rdi)
        (b"\x5a\xff\xe2", True),  # pop %rdx; jmp *%rdx
        (b"\xf3\x0f\x1e\xfa\x41\x58\x41\x50\xc3", True),  # endbr64; pop %r8; push %r8
        (b"\x50\x48\x8b\x04\x24\x5a\xc3", False),  # push %rax; mov (%rsp),%rax
        (b"\x48\x83\xec\x08\x48\x8b\x04\x24\x48\x83\xc4\x08\xc3", False),  # sub $8,%rsp; mov (%rsp),%rax
        (b"\xc3\x48\x8b\x04\x24\xc3", False),  # ret
        (b"\xb8\x48\x8b\x04\x24\xc3", False),  # mov $0x24048b48,%eax
        (b"\x48\x8b\x44\x24\x08\xc3", False),  # mov 8(%rsp),%rax: an argument
        (b"\x90" * 64 + b"\x48\x8b\x04\x24\xc3", False),  # too far
        (b"\xc3", False),
    ],
)  # fmt: skip
def test_a_load_of_the_return_address_is_told_from_others(tmp_path: Path, code: bytes, reads: bool) -> None:
    binary = written(tmp_path, code)
    (function,) = find_functions(binary, "f")
    assert reads_own_return(binary.code, function) is reads


def test_it_is_probed_where_it_returns_whatever_the_user_dares(tmp_path: Path) -> None:
    binary = written(tmp_path, KEEPS)
    (function,) = find_functions(binary, "f")
    for unsafe in (False, True):
        plan = plan_return(binary.code, binary.unwinding, function, unsafe)
        assert plan == ReturnPlan("ret", (TEXT_ADDRESS + len(KEEPS) - 1,))
