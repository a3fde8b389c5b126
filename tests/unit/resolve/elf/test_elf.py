from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elfwriter import DATA_ADDRESS, DATA_OFFSET, TEXT_ADDRESS, TEXT_OFFSET, ElfWriter, usdt_note
from tests.unit.resolve.programs import FUNCTIONS_C, PROBES_C
from tracer.errors import TracerError, printable
from tracer.resolve.binary import Binary
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.safety.placement import function_start
from tracer.resolve.safety.returns import plan_return

GOOD = ElfWriter(
    symbols=[("f", TEXT_ADDRESS, 2, 0x12), ("v", DATA_ADDRESS, 4, 0x11)],
    notes=usdt_note("p", "q", "-4@%edi -4@v(%rip)", semaphore=DATA_ADDRESS + 8),
).build()


def message(content: bytes) -> str:
    with pytest.raises(ElfError) as caught:
        read_everything(content)
    return caught.value.message


def read_everything(content: bytes) -> None:
    """Whatever the package would ever read of a file."""
    binary = Binary.__new__(Binary)
    binary.path = binary.shown = "file"
    binary.elf = Elf("file", content)
    elf = binary.elf
    assert elf.sections is not None and elf.segments is not None
    assert elf.build_id is None or elf.build_id
    assert elf.needed is not None and (elf.soname is None or elf.soname)
    for note in binary.usdt:
        binary.arguments(note)
    for function in binary.symbols.functions[:50]:
        binary.code.range_of(function)
        binary.symbols.named(function.name)
        try:
            plan_return(binary.code, binary.unwinding, function)
        except TracerError as error:
            assert "\n" not in error.message
    binary.symbols.function_at(elf.entry)
    binary.code.frames.frame_at(elf.entry)
    assert binary.code.frames.personality in (True, False)


def patched(offset: int, layout: str, value: int) -> bytes:
    content = bytearray(GOOD)
    struct.pack_into(layout, content, offset, value)
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "file: an empty file, not an ELF file"),
        (b"#!/bin/sh\n", "file: a script, not an ELF file"),
        (b"\x90\xc3", "file: a flat binary without any header, not an ELF file"),
        (b"!<arch>\n/  ", "file: an archive of object files, not an ELF file"),
        ("größer\n".encode(), "file: a text file, not an ELF file"),
        (b"MZ\x90\0", "file: a program for Windows, not an ELF file"),
        (b"PK\3\4\x14", "file: a zip archive, not an ELF file"),
        (b"\x7fELF", "file: truncated ELF file: the header would end at byte 64 of 4"),
        (GOOD[:40], "file: truncated ELF file: the header would end at byte 64 of 40"),
        (patched(4, "B", 1), "file: 32-bit files for x86-64 are not supported"),
        (patched(18, "<H", 3), "file: not a valid ELF file: 64-bit files for i386"),
        (patched(4, "B", 9), "file: not a valid ELF file: class 9"),
        (patched(5, "B", 2), "file: big-endian ELF files are not supported"),
        (patched(5, "B", 0), "file: not a valid ELF file: byte order 0"),
        (patched(16, "<H", 1), "file: neither a program nor a shared library but an object file"),
        (patched(16, "<H", 4), "file: neither a program nor a shared library but a core dump"),
        (patched(16, "<H", 99), "file: neither a program nor a shared library but an ELF file of type 99"),
        (patched(18, "<H", 243), "file: made for machine 243: only x86-64, i386 and aarch64 are supported"),
        (
            patched(32, "<Q", 1 << 60),
            f"file: truncated ELF file: the program header table would end at byte {(1 << 60) + 112} of {len(GOOD)}",
        ),
        (patched(54, "<H", 55), "file: not a valid ELF file: program headers of 55 bytes"),
        (patched(58, "<H", 63), "file: not a valid ELF file: section headers of 63 bytes"),
        (patched(62, "<H", 77), "file: not a valid ELF file: no section 77 for the section names"),
        (
            GOOD[:-64],
            f"file: truncated ELF file: the section header table would end at byte {len(GOOD)} of {len(GOOD) - 64}",
        ),
    ],
)
def test_says_in_one_line_what_is_wrong_with_a_file(content: bytes, expected: str) -> None:
    assert message(content) == expected


def test_finds_segments_sections_and_offsets_where_they_were_written() -> None:
    elf = Elf("file", GOOD)
    assert [section.name for section in elf.sections][1:6] == [".text", ".data", ".symtab", ".strtab", ".note.stapsdt"]
    assert elf.offset_of(TEXT_ADDRESS + 5) == TEXT_OFFSET + 5
    assert elf.offset_of(DATA_ADDRESS + 5) == DATA_OFFSET + 5
    assert elf.offset_of(DATA_ADDRESS + 64) is None  # .bss: memory, but no file
    assert elf.offset_of(0x9000) is None
    assert elf.address_of(TEXT_OFFSET + 5) == TEXT_ADDRESS + 5


def test_refuses_a_directory_a_fifo_and_a_missing_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, expected in [
        ("", f"{tmp_path}: not a regular file"),
        ("fifo", f"{tmp_path}/fifo: not a regular file"),
        ("none", f"{tmp_path}/none: no such file"),
        ("a\nb", f"{tmp_path}/a\\nb: no such file"),
    ]:
        with pytest.raises(ElfError) as caught:
            Elf(str(tmp_path / name) if name else str(tmp_path))
        assert caught.value.message == expected


def test_a_sparse_file_that_claims_huge_tables_is_refused_without_reading_them(tmp_path: Path) -> None:
    content = bytearray(GOOD)
    section_offset = struct.unpack_from("<Q", content, 40)[0]
    struct.pack_into("<Q", content, section_offset + 3 * 64 + 32, 1 << 40)  # the size of .symtab
    path = tmp_path / "sparse"
    path.write_bytes(content)
    os.truncate(path, 1 << 42)
    with pytest.raises(ElfError) as caught:
        Binary(str(path)).symbols.named("f")
    assert caught.value.message == f"{path}: unusable ELF file: section .symtab would take {1 << 40} bytes"


def test_names_from_the_file_cannot_break_an_error_into_lines() -> None:
    writer = ElfWriter(text=b"\xcc" * 16, symbols=[("a\nb\x1b[31m", TEXT_ADDRESS, 2, 0x12)])
    binary = Binary.__new__(Binary)
    binary.elf = Elf("file", writer.build())
    with pytest.raises(ElfError) as caught:
        function_start(binary.code, binary.symbols.functions[0])
    expected = "file: the function a\\nb\\x1b[31m at 0x1000 is already a breakpoint in the file itself"
    assert caught.value.message == expected


def test_more_sections_than_any_file_has_are_refused() -> None:
    content = bytearray(GOOD)
    section_offset = struct.unpack_from("<Q", content, 40)[0]
    struct.pack_into("<H", content, 60, 0)
    struct.pack_into("<Q", content, section_offset + 32, 1 << 50)
    assert message(bytes(content)) == f"file: not a valid ELF file: {1 << 50} sections"


@pytest.fixture(scope="module")
def victims(build: Build) -> list[bytes]:
    return [
        GOOD,
        build(PROBES_C, "-O2").read_bytes(),
        build(FUNCTIONS_C, "-O2", "-s").read_bytes(),
    ]


def survives(content: bytes) -> None:
    try:
        read_everything(content)
    except TracerError as error:
        assert error.message.startswith("file: ") and "\n" not in error.message


def test_truncation_anywhere_gives_an_error_or_an_answer(victims: list[bytes]) -> None:
    for victim in victims:
        chosen = random.Random(1).sample(range(len(victim)), 150)
        for length in [*range(0, 130, 3), *chosen]:
            survives(victim[:length])


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_gives_an_error_or_an_answer(victims: list[bytes], seed: int) -> None:
    chance = random.Random(seed)
    for victim in victims:
        # The headers, the section table and everywhere else, with the values that overflow most easily.
        section_table = struct.unpack_from("<Q", victim, 40)[0]
        regions = [(16, 400), (section_table, len(victim)), (0, len(victim))]
        for _ in range(120):
            content = bytearray(victim)
            for _ in range(chance.randrange(1, 6)):
                at = min(chance.randrange(*chance.choice(regions)), len(content) - 8)
                size = chance.choice([1, 2, 4, 8])
                value = chance.choice([0, 1, 0xFFFFFFFF, 1 << 31, (1 << 63) - 1, (1 << 64) - 1, chance.getrandbits(64)])
                content[at : at + size] = value.to_bytes(8, "little")[:size]
            survives(bytes(content))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=600))
def test_random_bytes_behind_a_right_beginning_are_survived(tail: bytes) -> None:
    survives(GOOD[:18] + tail)


def test_what_cannot_be_printed_is_escaped_once_and_the_rest_stays() -> None:
    assert printable(os.fsdecode(b"caf\xc3\xa9 \xff\xe9\n\\d")) == "café \\xff\\xe9\\n\\d"
