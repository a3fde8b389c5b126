"""The forms of the check by which a Go function begins, as compilers from 1.17 to 1.23 write it, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.resolve.elfwriter import TEXT_ADDRESS, ElfWriter
from tests.unit.resolve.sites.test_expand import sites
from tracer.kinds.site import Mem, Reg

MORE = TEXT_ADDRESS + 0x80
LOAD, LOAD_PIE = "64 4c 8b 34 25 f8 ff ff ff", "49 c7 c6 f8 ff ff ff 64 4d 8b 36"  # g from its thread-local place
SMALL = "49 3b 66 10"  # cmp rsp, [r14+0x10]
LARGE = "4c 8d a4 24 78 fc ff ff 4d 3b 66 10"  # lea r12, [rsp-0x388]; cmp r12, [r14+0x10]
KEEP = "48 89 44 24 08 88 4c 24 10 0f 1f 00"  # mov [rsp+8], rax; mov [rsp+0x10], cl; nop
TAKE = "48 8b 44 24 08 0f b6 4c 24 10"
OLD_FRAME, FRAME, AND_128 = "48 83 ec 48", "55 48 89 e5", "48 83 c4 80"
RETURN = "c3"


def function(check: str, frame: str = FRAME, more: int = MORE, back: int = TEXT_ADDRESS, wide: bool = False) -> bytes:
    """`check` and a jump, the frame, `ret`; what calls for a larger stack; at MORE the function that is called."""
    before = bytes.fromhex(check)
    frame_code = bytes.fromhex(frame + RETURN)
    jump = b"\x0f\x86" + len(frame_code).to_bytes(4, "little") if wide else bytes([0x76, len(frame_code)])
    code = before + jump + frame_code + bytes.fromhex(KEEP)
    code += b"\xe8" + (more - (TEXT_ADDRESS + len(code) + 5)).to_bytes(4, "little", signed=True) + bytes.fromhex(TAKE)
    code += b"\xe9" + (back - (TEXT_ADDRESS + len(code) + 5)).to_bytes(4, "little", signed=True)
    return code


def entry(path: Path, code: bytes, name: str = "main.f", go: bool = True) -> tuple[int, list[object]]:
    """How many bytes behind its start the function is probed, and its first two arguments."""
    info = b"\xff Go buildinf:\x08\x02".ljust(32, b"\0")
    ElfWriter(
        text=code.ljust(0x80, b"\xcc") + b"\xc3",
        extra=[(".go.buildinfo", 1, 0, info)] if go else [],
        symbols=[(name, TEXT_ADDRESS, len(code), 0x12), ("runtime.morestack_noctxt.abi0", MORE, 1, 0x12)],
    ).write(path / "go")
    (site,) = sites(f"uprobe:{path}/go:{name}")
    assert site.offset == site.address and site.probe == f"uprobe:{path}/go:{name}" and site.function == name
    return site.address - TEXT_ADDRESS, [each.operand for each in site.args[:2]]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("frame", [OLD_FRAME, FRAME, AND_128])
@pytest.mark.parametrize("check", [SMALL, LARGE, f"{LOAD} {SMALL}", f"{LOAD_PIE} {LARGE}"])
def test_the_probe_goes_behind_the_check(check: str, frame: str, wide: bool, tmp_path: Path) -> None:
    behind = len(bytes.fromhex(check)) + (6 if wide else 2)
    assert entry(tmp_path, function(check, frame, wide=wide)) == (behind, [Reg("ax"), Reg("bx")])


def test_a_huge_frame_has_two_jumps(tmp_path: Path) -> None:
    whole = function("4d 3b 66 10", OLD_FRAME)
    # mov r12, rsp; sub r12, 0x26b0; jb over the rest of the check, the jump and the frame
    head = bytes.fromhex("49 89 e4 49 81 ec b0 26 00 00") + bytes([0x72, 4 + 2 + 4 + 1])
    moved = bytearray(head + whole)
    for at in (len(moved) - 4, len(moved) - 4 - 10 - 5):  # both distances are longer by what stands before
        value = int.from_bytes(moved[at : at + 4], "little", signed=True) - len(head)
        moved[at : at + 4] = value.to_bytes(4, "little", signed=True)
    assert entry(tmp_path, bytes(moved))[0] == len(head) + 4 + 2
    moved[len(head) - 1] += 2  # into an instruction of the part that calls
    assert entry(tmp_path, bytes(moved))[0] == 0


@pytest.mark.parametrize(
    "code",
    [
        function(SMALL, more=MORE - 8),  # calls something else
        function(SMALL, back=TEXT_ADDRESS + 4),  # does not begin again
        function(SMALL, frame="48 ff c0"),  # inc rax: a loop could come back to it
        function("48 3b 60 10"),  # cmp rsp, [rax+0x10]: no goroutine
        function("49 ff c0 49 3b 66 10"),  # inc r8, which is an argument
        function(SMALL)[:-5],  # runs out of the function
        b"\xc3",
    ],
)
def test_what_is_not_proven_is_probed_at_its_first_instruction(code: bytes, tmp_path: Path) -> None:
    assert entry(tmp_path, code)[0] == 0


def test_only_go_s_functions_have_a_check(tmp_path: Path) -> None:
    assert entry(tmp_path, function(SMALL), go=False)[0] == 0


def test_assembler_takes_its_arguments_on_the_stack_also_behind_the_check(tmp_path: Path) -> None:
    found = entry(tmp_path, function(f"{LOAD} {SMALL}"), "main.f.abi0")
    assert found == (15, [Mem("sp", 8), Mem("sp", 16)])


def test_an_offset_or_an_address_is_taken_as_it_is(tmp_path: Path) -> None:
    entry(tmp_path, function(SMALL))
    (site,) = sites(f"uprobe:{tmp_path}/go:{TEXT_ADDRESS:#x}")
    assert site.address == TEXT_ADDRESS
    (site,) = sites(f"uprobe:{tmp_path}/go:main.f+4")
    assert site.address == TEXT_ADDRESS + 4
