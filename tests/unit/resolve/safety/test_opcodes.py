from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.resolve.elfwriter import TEXT_ADDRESS, TEXT_OFFSET, ElfWriter
from tracer.errors import Source
from tracer.kinds.site import Target
from tracer.lang.syntax.parser import parse
from tracer.resolve.binary import Binary
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.safety.opcodes import LONGEST, SUSPECT, is_misdecoded
from tracer.resolve.safety.placement import function_starts, inside_function
from tracer.resolve.sites.expand import expand

# What Linux 6.18 did with a probe on each, in a function that was called with and without it.
WRONG = {
    "vpshufd $27,%xmm0,%xmm0": "c5f970c01b",
    "vpsllw $4,%xmm0,%xmm0": "c5f971f004",
    "vpcmpeqb %xmm0,%xmm0,%xmm0": "c5f974c0",
    "vzeroupper": "c5f877",
    "vmovd %xmm0,%eax": "c5f97ec0",
    "vmovdqa %xmm1,%xmm0, stored": "c5f97fc8",
    "vcmpps $1,%xmm1,%xmm0,%xmm0": "c5f8c2c101",
    "vpsubsb %xmm1,%xmm0,%xmm0": "c5f9e8c1",
    "vpsubsw %xmm1,%xmm0,%xmm0": "c5f9e9c1",
    "vpor %xmm0,%xmm1,%xmm0": "c5f1ebc0",
    "vfnmadd132ss %xmm1,%xmm0,%xmm0": "c4e2799dc1",
    "vpbroadcastb %esi,%ymm16": "62e27d287ace",
    "xchg %rax,%r8": "4990",
    "xchg %eax,%r8d": "4190",
    "the same behind a prefix": "664190",
    "vpor through %fs": "64c5f1eb00",
}
RIGHT = {
    "nop": "90",
    "nop of two bytes": "6690",
    "pause": "f390",
    "xchg of itself, a nop": "4890",
    "pcmpeqb %xmm0,%xmm0": "660f74c0",
    "je": "7400",
    "jmp": "eb00",
    "call": "e800000000",
    "ret": "c3",
    "popf": "9d",
    "push %r12": "4154",
    "endbr64": "f30f1efa",
    "vmovups %xmm1,%xmm0": "c5f810c1",
    "vpaddb %xmm1,%xmm0,%xmm0": "c5f9fcc1",
    "vpextrw $0,%xmm0,%eax": "c5f9c5c000",
    "nothing": "",
    "a prefix alone": "66",
    "half a VEX prefix": "c5f9",
}


@pytest.mark.parametrize("code", WRONG.values(), ids=WRONG)
def test_what_went_wrong_is_known(code: str) -> None:
    content = bytes.fromhex(code)
    assert is_misdecoded(content) and content[0] in SUSPECT and len(content) <= LONGEST


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_what_went_right_is_let_be(code: str) -> None:
    assert not is_misdecoded(bytes.fromhex(code))


def library(tmp_path: Path, machine: int = 62) -> Binary:
    """20 functions `mov %rdi,%rax; ret` and in their midst one that begins with vpor."""
    codes = [b"\x48\x89\xf8\xc3\x90"] * 20
    codes.insert(7, b"\xc5\xf1\xeb\xc0\xc3")
    symbols = [(f"f{number:02}", TEXT_ADDRESS + 5 * number, 4, 0x12) for number in range(21)]
    (tmp_path / "lib").write_bytes(
        ElfWriter(machine=machine, text=b"".join(codes) + b"\x90" * 32, symbols=symbols).build()
    )
    return Binary(str(tmp_path / "lib"), "lib")


def test_among_many_functions_they_are_told(tmp_path: Path) -> None:
    binary = library(tmp_path)
    functions = sorted(binary.symbols.functions, key=lambda each: each.address)
    found = function_starts(binary.code, functions)
    assert [each for each in found if not isinstance(each, ElfError)] == [
        TEXT_OFFSET + 5 * number for number in range(21) if number != 7
    ]
    assert str(found[7]).startswith("lib: the function f07 at 0x1023 begins with an instruction (c5 f1 eb c0 c3 48 …)")
    assert function_starts(binary.code, functions[:3]) == found[:3]


def test_an_address_of_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ElfError, match=r"^lib: the address at 0x1023 begins with an instruction"):
        inside_function(library(tmp_path).code, TEXT_ADDRESS + 35)


def test_a_pattern_of_nothing_else_is_refused_and_a_larger_one_goes_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(tmp_path)
    monkeypatch.chdir(tmp_path)
    left_out: list[object] = []
    (found,) = expand(parse(Source("uprobe:./lib:f* { }")), Target(), warnings=left_out).values()  # type: ignore[arg-type]
    assert len(found) == 20 and len(left_out) == 1
