"""Restartable sequences, of which the linker or the loader fills in the addresses."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.elfwriter import DATA_ADDRESS, TEXT_ADDRESS, ElfWriter
from tracer.resolve.binary import Binary
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.functions.lookup import find_functions
from tracer.resolve.safety.placement import function_starts, inside_function

PROGRAM = r"""
__asm__(".text\n.globl add\n.type add, @function\nadd: nop\nbegin: nop\nnop\nend: nop\nret\n.size add, .-add\n"
        ".globl whole\n.type whole, @function\nwhole: nop\nover: ret\n.size whole, .-whole\ngiven_up: jmp add\n"
        ".pushsection __rseq_cs, \"aw\"\n.balign 32\n.long 0, 0\n.quad whole, over - whole, given_up\n"
        ".long 0, 0\n.quad begin, end - begin, given_up\n.popsection\n");
int main(void) { return 0; }
"""

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64")


@pytest.mark.parametrize("flags", [("-fPIE", "-pie"), ("-fno-pie", "-no-pie")])
def test_no_place_in_one_is_taken(flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(PROGRAM)
    subprocess.run(["gcc", *flags, "-o", "a", "a.c"], cwd=tmp_path, check=True)
    binary = Binary(str(tmp_path / "a"), "a")
    (add,), (whole,) = find_functions(binary, "add"), find_functions(binary, "whole")
    taken = []
    for address in range(add.address, add.address + add.size):
        try:
            inside_function(binary.code, address)
        except ElfError as error:
            assert error.message == (
                f"a: the address at {address:#x} is in a restartable sequence (rseq), which a probe would break"
            )
        else:
            taken.append(address - add.address)
    assert taken == [0, 3, 4]
    # As in a wildcard, by ones and by many.
    for functions in ([add, whole], [*[add] * 16, whole]):
        *offsets, refused = function_starts(binary.code, functions)
        assert all(isinstance(offset, int) for offset in offsets)
        assert isinstance(refused, ElfError) and "the function whole at" in refused.message


def test_a_section_that_is_cut_off_is_taken_as_far_as_it_goes(tmp_path: Path) -> None:
    row = bytes(8) + TEXT_ADDRESS.to_bytes(8, "little") + (2).to_bytes(8, "little") + bytes(8)
    path = tmp_path / "elf"
    path.write_bytes(ElfWriter(extra=[("__rseq_cs", 1, DATA_ADDRESS, row + row[:20])]).build())
    assert Binary(str(path), "file").code.sequences == [range(TEXT_ADDRESS, TEXT_ADDRESS + 2)]
