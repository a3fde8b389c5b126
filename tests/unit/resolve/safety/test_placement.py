from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elfwriter import DATA_ADDRESS, TEXT_ADDRESS, TEXT_OFFSET, ElfWriter, usdt_note
from tests.unit.resolve.programs import FUNCTIONS_C, PROBES_C
from tracer.errors import TracerError
from tracer.resolve.binary import Binary
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.functions.lookup import find_functions
from tracer.resolve.safety.placement import function_start, function_starts, inside_function, usdt_site

AT = TEXT_ADDRESS
# push %rbp; mov %rsp,%rbp; mov $0x12345678,%eax; pop %rbp; ret
CODE = b"\x55\x48\x89\xe5\xb8\x78\x56\x34\x12\x5d\xc3"


def written(tmp_path: Path, **parts: object) -> Binary:
    path = tmp_path / "elf"
    path.write_bytes(ElfWriter(**parts).build())  # type: ignore[arg-type]
    return Binary(str(path), "file")


def refusal(binary: Binary, address: int) -> tuple[str, str | None]:
    with pytest.raises(ElfError) as caught:
        inside_function(binary.code, address)
    return caught.value.message, caught.value.hint


def test_every_instruction_start_is_taken_and_nothing_between(tmp_path: Path) -> None:
    binary = written(tmp_path, text=CODE, symbols=[("f", AT, len(CODE), 0x12)])
    taken = []
    for address in range(AT, AT + len(CODE)):
        try:
            offset, around = inside_function(binary.code, address)
        except TracerError:
            continue
        assert offset == TEXT_OFFSET + address - AT and around.name == "f"
        taken.append(address - AT)
    assert taken == [0, 1, 4, 9, 10]


def test_a_refusal_names_the_nearest_starts(tmp_path: Path) -> None:
    binary = written(tmp_path, text=CODE, symbols=[("f", AT, len(CODE), 0x12)])
    assert refusal(binary, AT + 6) == (
        "file: 0x1006 is inside an instruction, not at its start",
        "the nearest starts are f+4 (0x1004) and f+9 (0x1009)",
    )
    assert refusal(binary, AT + 2)[1] == "the nearest starts are f+1 (0x1001) and f+4 (0x1004)"


def test_places_that_are_no_code_are_refused(tmp_path: Path) -> None:
    binary = written(tmp_path, text=CODE + bytes(8), symbols=[("f", AT, len(CODE), 0x12)])
    assert refusal(binary, DATA_ADDRESS)[0] == "file: the address at 0x3000 is not in an executable segment"
    assert refusal(binary, 0x9000)[0] == "file: the address at 0x9000 is not in the file"
    assert refusal(binary, AT + len(CODE) + 2) == (
        "file: nothing says where the function around 0x100d begins, so it cannot be checked",
        "give an address inside a function that `tracer list` shows",
    )


def test_code_that_cannot_be_decoded_is_not_guessed_at(tmp_path: Path) -> None:
    binary = written(tmp_path, text=b"\x55\x06\x06\x90\x90\xc3", symbols=[("f", AT, 6, 0x12)])
    assert refusal(binary, AT + 3)[0] == "file: f can be decoded only up to 0x1000, so 0x1003 cannot be checked"


def test_a_jump_into_a_decoded_instruction_shows_that_decoding_went_astray(tmp_path: Path) -> None:
    # jmp +1 over a byte that swallows the next four as its operand; nop; nop; nop; nop; ret
    binary = written(tmp_path, text=b"\xeb\x01\xb8\x90\x90\x90\x90\xc3", symbols=[("f", AT, 8, 0x12)])
    expected = "file: the instructions of f cannot be told apart: a jump at 0x1000 goes into the middle of one"
    assert refusal(binary, AT + 7)[0] == expected


@pytest.mark.parametrize("code", [b"\xcc\x90\xc3", b"\xcd\x03\xc3"])
def test_a_breakpoint_in_the_file_is_refused(tmp_path: Path, code: bytes) -> None:
    binary = written(tmp_path, text=code, symbols=[("f", AT, len(code), 0x12)])
    with pytest.raises(ElfError) as caught:
        function_start(binary.code, binary.symbols.named("f")[0])
    assert caught.value.message == "file: the function f at 0x1000 is already a breakpoint in the file itself"


def test_a_symbol_outside_code_is_refused(tmp_path: Path) -> None:
    binary = written(tmp_path, symbols=[("f", DATA_ADDRESS, 8, 0x12)])
    with pytest.raises(ElfError) as caught:
        function_start(binary.code, binary.symbols.named("f")[0])
    assert caught.value.message == "file: the function f at 0x3000 is not in an executable segment"


def test_a_function_of_unknown_size_must_at_least_begin_with_an_instruction(tmp_path: Path) -> None:
    binary = written(tmp_path, text=b"\x06\x06\x06\xc3", symbols=[("f", AT, 0, 0x12)])
    with pytest.raises(ElfError) as caught:
        function_start(binary.code, binary.symbols.named("f")[0])
    assert caught.value.message == "file: the function f at 0x1000 holds no known instruction"
    good = written(tmp_path, text=CODE, symbols=[("f", AT, 0, 0x12)])
    assert function_start(good.code, good.symbols.named("f")[0]) == TEXT_OFFSET


@pytest.mark.parametrize(
    ("code", "red_zone", "nop10"),
    [
        (b"\x90\xc3", False, False),
        (b"\x66\x90\xc3", False, False),
        (b"\x0f\x1f\x40\x00\xc3", False, False),
        (b"\x90\x0f\x1f\x44\x00\x00\xc3", False, False),
        (b"\x90\x66\x2e\x0f\x1f\x84\0\0\0\0\0\xc3", False, True),
        (b"\x90\x66\x2e\x0f\x1f\x84\0\0\0\0\1\xc3", False, False),
        (b"\x66\x90\x66\x2e\x0f\x1f\x84\0\0\0\0\0\xc3", False, False),
        # Of the function around it nothing is known.
        (b"\x0f\x1f\x44\x00\x00\xc3", True, False),
    ],
)
def test_a_usdt_site_holds_a_nop_and_those_that_may_become_calls_are_marked(
    tmp_path: Path, code: bytes, red_zone: bool, nop10: bool
) -> None:
    binary = written(tmp_path, text=code.ljust(16, b"\x90"), notes=usdt_note("p", "q"))
    assert usdt_site(binary.code, binary.usdt[0]) == (TEXT_OFFSET, red_zone, nop10)


def test_a_usdt_site_without_its_nop_is_refused(tmp_path: Path) -> None:
    binary = written(tmp_path, text=CODE, notes=usdt_note("p", "q"))
    with pytest.raises(ElfError) as caught:
        usdt_site(binary.code, binary.usdt[0])
    assert (caught.value.message, caught.value.hint) == (
        "file: the USDT probe p:q at 0x1000 does not hold the nop that its note promises, but 55 48 89 e5",
        "the file was changed after it was built, or its notes belong to another file",
    )


def test_a_usdt_site_outside_code_is_refused(tmp_path: Path) -> None:
    binary = written(tmp_path, notes=usdt_note("p", "q", address=DATA_ADDRESS))
    with pytest.raises(ElfError) as caught:
        usdt_site(binary.code, binary.usdt[0])
    assert caught.value.message == "file: the USDT probe p:q at 0x3000 is not in an executable segment"


def test_every_site_of_real_programs_passes() -> None:
    for path in ("/usr/bin/python3.11", "/usr/lib/postgresql/15/bin/postgres"):
        binary = Binary(path)
        assert all(usdt_site(binary.code, note)[0] for note in binary.usdt)


def objdump_starts(path: str) -> dict[int, set[int]]:
    """By function: where objdump sees instructions begin."""
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    ).stdout
    starts: dict[int, set[int]] = {}
    function = None
    for line in text.splitlines():
        if line.endswith(">:"):
            function = int(line.split()[0], 16)
            starts[function] = set()
        elif line.startswith(" ") and ":" in line and function is not None:
            starts[function].add(int(line.split(":")[0], 16))
    return starts


@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-no-pie"), ("-O2", "-shared", "-fPIC")])
def test_agrees_with_objdump_on_every_byte_of_every_function(build: Build, flags: tuple[str, ...]) -> None:
    path = str(build(PROBES_C, *flags))
    binary = Binary(path)
    starts = objdump_starts(path)
    checked = 0
    for function in binary.symbols.functions:
        if not function.size:
            continue
        for address in range(function.address, function.address + function.size):
            try:
                inside_function(binary.code, address)
                ours = True
            except TracerError:
                ours = False
            assert ours == (address in starts[function.address]), hex(address)
            checked += 1
    assert checked > 100


def test_a_stripped_file_is_decoded_from_its_unwind_table(build: Build) -> None:
    full = Binary(str(build(FUNCTIONS_C, "-O1")))
    stripped = Binary(str(build(FUNCTIONS_C, "-O1", "-s")))
    (function,) = full.symbols.named("helper_two")
    around = stripped.code.range_at(function.address + 1)
    assert around is not None
    assert (around.start, around.end, around.name) == (function.address, function.address + function.size, "")
    starts = objdump_starts(full.elf.path)[function.address]
    for address in random.Random(0).sample(range(function.address, function.address + function.size), 8):
        try:
            inside_function(stripped.code, address)
            assert address in starts
        except ElfError as error:
            assert address not in starts
            assert error.message == f"{stripped.path}: {address:#x} is inside an instruction, not at its start"


def test_many_functions_are_where_each_alone_is() -> None:
    binary = Binary("/lib/x86_64-linux-gnu/libc.so.6")
    functions = find_functions(binary, "*")
    assert len(functions) > 1500
    alone: list[int | str] = []
    for each in functions:
        try:
            alone.append(function_start(binary.code, each))
        except ElfError as error:  # some of those that are made for AVX-512
            alone.append(str(error))
    together = function_starts(binary.code, functions)
    assert [str(each) if isinstance(each, ElfError) else each for each in together] == alone


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (("f", AT + 11, 1, 0x12), f"the function f at {AT + 11:#x} is already a breakpoint in the file itself"),
        (("f", DATA_ADDRESS, 1, 0x12), f"the function f at {DATA_ADDRESS:#x} is not in an executable segment"),
        (("f", 0x10, 1, 0x12), "the function f at 0x10 is not in the file"),
    ],
)
def test_one_bad_function_among_many_is_found(tmp_path: Path, bad: tuple[str, int, int, int], reason: str) -> None:
    symbols = [(f"g{number}", AT, len(CODE), 0x12) for number in range(20)]
    binary = written(tmp_path, text=CODE + b"\xcc", data=bytes(8), symbols=[*symbols, bad])
    functions = sorted(binary.symbols.functions, key=lambda each: each.address)
    found = function_starts(binary.code, functions)
    assert [str(each) for each in found if isinstance(each, ElfError)] == [f"file: {reason}"]
    assert len(found) == 21 and found.count(TEXT_OFFSET) == 20


def test_many_functions_are_found_up_to_the_last_byte_of_their_segment(tmp_path: Path) -> None:
    symbols = [(f"g{number}", AT + number, 1, 0x12) for number in range(40)]
    path = tmp_path / "cut"
    path.write_bytes(ElfWriter(text=b"\x90" * 40, symbols=symbols).build())
    binary = Binary(str(path), "file")
    functions = binary.symbols.functions
    assert function_starts(binary.code, functions) == [TEXT_OFFSET + number for number in range(40)]
