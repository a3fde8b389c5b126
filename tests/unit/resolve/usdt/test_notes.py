from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elfwriter import DATA_ADDRESS, DATA_OFFSET, TEXT_ADDRESS, ElfWriter, note, usdt_note
from tests.unit.resolve.programs import BY_HAND_C, PROBES_C, SEMAPHORE_C
from tracer.errors import NOWHERE, NothingThere
from tracer.kinds.model import AttachPoint
from tracer.kinds.site import Const, Global, GlobalPointer, Mem, Operand, Reg, Unreadable
from tracer.resolve.binary import Binary
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.sites.usdt_sites import usdt_sites
from tracer.resolve.usdt.notes import UsdtNote, read_notes, semaphore_offset

REAL_FILES = [
    "/usr/bin/python3.11",
    "/usr/lib/postgresql/15/bin/postgres",
    "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so",
]


def written(tmp_path: Path, writer: ElfWriter) -> Binary:
    return Binary(str(writer.write(tmp_path / "elf")))


LOCAL = ("own", DATA_ADDRESS + 48, 4, 1)
"""A table that has a local symbol was not stripped of them."""


def argument(tmp_path: Path, writer: ElfWriter, text: str) -> Operand:
    writer.notes = usdt_note("p", "q", text)
    binary = written(tmp_path, writer)
    (spec,) = binary.arguments(binary.usdt[0])
    return spec.operand


def test_every_site_of_every_name_is_read_with_its_own_arguments() -> None:
    notes = (
        usdt_note("p", "a", "-4@%edi", 0x1000)
        + usdt_note("p", "b", "", 0x1004)
        + note(b"GNU", 3, b"1234")
        + usdt_note("p", "a", "-4@8(%rsp)", 0x1008)
        + usdt_note("p", "a", "-4@%edi", 0x1000)
    )
    assert read_notes(Elf("file", ElfWriter(notes=notes).build())) == (
        UsdtNote("p", "a", 0x1000, 0, "-4@%edi"),
        UsdtNote("p", "b", 0x1004, 0, ""),
        UsdtNote("p", "a", 0x1008, 0, "-4@8(%rsp)"),
    )


def test_addresses_follow_a_library_that_prelink_moved() -> None:
    notes = usdt_note("p", "a", address=0x1000, base=0x5000, semaphore=0x3000) + usdt_note(
        "p", "b", address=0x1004, base=0x5000
    )
    moved = ElfWriter(notes=notes, base=0x7000).build()
    assert [(each.address, each.semaphore) for each in read_notes(Elf("file", moved))] == [
        (0x3000, 0x5000),
        (0x3004, 0),
    ]


def test_a_note_whose_code_the_linker_threw_away_keeps_no_address_of_its_own() -> None:
    moved = ElfWriter(notes=usdt_note("p", "a", address=0, base=0x5000), base=0x7000).build()
    assert [each.address for each in read_notes(Elf("file", moved))] == [0]


DAMAGED = [
    (note(b"stapsdt", 3, b"short"), 0, 0),
    (note(b"stapsdt", 3, bytes(24) + b"p\0q"), 0, 0),
    (usdt_note("p", "a") + note(b"stapsdt", 3, b"") + usdt_note("p", "b"), 52, 2),
    (usdt_note("p", "a")[:-8], 0, 0),
    (usdt_note("p", "a") + b"\xff" * 12, 52, 1),
]


@pytest.mark.parametrize(
    ("notes", "place", "others"), DAMAGED, ids=["short", "unterminated", "empty", "truncated", "garbage"]
)
def test_a_damaged_note_is_said_and_costs_no_other(notes: bytes, place: int, others: int, tmp_path: Path) -> None:
    said = f"damaged USDT note at byte {place} of section .note.stapsdt"
    with pytest.raises(ElfError) as caught:
        read_notes(Elf("file", ElfWriter(notes=notes).build()))
    assert caught.value.message == f"file: {said}"
    path = ElfWriter(notes=notes).write(tmp_path / "elf")
    if others:
        left_out: list[str] = []
        found = usdt_sites(AttachPoint("usdt", "", NOWHERE, name="a"), Binary(str(path)), left_out)
        assert [site.address for site in found] == [TEXT_ADDRESS]
        assert left_out[0] == f"1 of the file's USDT notes left out; the first: {said}"
        assert len(Binary(str(path)).usdt) == others
    else:
        with pytest.raises(ElfError) as caught:
            Binary(str(path)).usdt  # noqa: B018
        assert caught.value.message == f"{path}: {said}"


def test_the_semaphore_is_given_as_file_offset() -> None:
    elf = Elf("file", ElfWriter(notes=usdt_note("p", "a", semaphore=DATA_ADDRESS + 6)).build())
    assert semaphore_offset(elf, read_notes(elf)[0]) == DATA_OFFSET + 6


def test_a_semaphore_in_the_last_page_of_the_data_is_in_the_file_s_mapping() -> None:
    elf = Elf("file", ElfWriter(notes=usdt_note("p", "a", semaphore=DATA_ADDRESS + 0x200)).build())
    assert semaphore_offset(elf, read_notes(elf)[0]) == DATA_OFFSET + 0x200


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (TEXT_ADDRESS, "is not in the file's writable data"),
        (0x99999999, "is not in the file's writable data"),
        (DATA_ADDRESS + 7, "has an odd address, where the kernel counts none"),
        (DATA_ADDRESS + 0x1000, "is in memory that comes from no file (.bss), where the kernel counts none"),
    ],
)
def test_a_semaphore_that_the_kernel_could_not_count_is_refused(address: int, reason: str) -> None:
    writer = ElfWriter(
        notes=usdt_note("p", "a", semaphore=address), extra=[(".bss", 8, DATA_ADDRESS + 0x1000, bytes(16))]
    )
    elf = Elf("file", writer.build())
    with pytest.raises(ElfError) as caught:
        semaphore_offset(elf, read_notes(elf)[0])
    assert caught.value.message == f"file: the semaphore of p:a at {address:#x} {reason}"


@pytest.mark.parametrize(("at", "wrong"), [(6, False), (0x200, True)])
def test_tracer_itself_raises_a_semaphore_that_is_cleared_when_the_program_is_loaded(
    at: int, wrong: bool, tmp_path: Path
) -> None:
    binary = written(tmp_path, ElfWriter(notes=usdt_note("p", "a", semaphore=DATA_ADDRESS + at)))
    (site,) = usdt_sites(AttachPoint("usdt", "", NOWHERE, name="a"), binary, [])
    assert (site.semaphore, site.raised) == ((None, DATA_OFFSET + at) if wrong else (DATA_OFFSET + at, None))
    assert site.guard == DATA_OFFSET + at


@pytest.mark.parametrize(("linker", "wrong"), [("bfd", False), ("lld", True)])
def test_tracer_itself_raises_a_semaphore_in_a_page_that_two_segments_share(
    linker: str, wrong: bool, tmp_path: Path
) -> None:
    (tmp_path / "s.c").write_text(SEMAPHORE_C)
    subprocess.run(["clang", f"-fuse-ld={linker}", "s.c", "-o", "s"], cwd=tmp_path, check=True)
    found = usdt_sites(AttachPoint("usdt", "", NOWHERE, name="busy"), Binary(str(tmp_path / "s")), [])
    assert [(site.semaphore is None, site.raised is None) for site in found] == [(wrong, not wrong)]


def sites_and_said(tmp_path: Path, writer: ElfWriter, name: str = "*") -> tuple[list[str], list[str]]:
    """The addresses and names of the sites, and what is said of those that are left out."""
    left_out: list[str] = []
    binary = written(tmp_path, writer)
    found = usdt_sites(AttachPoint("usdt", "", NOWHERE, name=name), binary, left_out)
    return [f"{site.address:#x} {site.probe.rpartition(':')[2]}" for site in found], left_out


def test_notes_of_dropped_code_and_bad_semaphores_cost_no_other_site(tmp_path: Path) -> None:
    notes = (
        usdt_note("p", "a", address=0xE)
        + usdt_note("p", "a", address=0)
        + usdt_note("p", "a")
        + usdt_note("p", "odd", address=TEXT_ADDRESS, semaphore=DATA_ADDRESS + 1)
        + usdt_note("p", "gone", address=0x11)
    )
    made = ElfWriter(text=b"\x90\x90\xc3", notes=notes, code_section=True)
    found, said = sites_and_said(tmp_path, made)
    assert found == [f"{TEXT_ADDRESS:#x} a"]
    assert said == [
        "3 of 5 sites left out: the linker dropped their code and kept their notes",
        f"1 of 2 sites left out: they cannot be probed; the first: {tmp_path}/elf: the semaphore of p:odd at"
        f" {DATA_ADDRESS + 1:#x} has an odd address, where the kernel counts none",
        "hits of a and odd cannot be told apart: the linker made them one place",
    ]
    with pytest.raises(NothingThere) as caught:
        sites_and_said(tmp_path, made, "gone")
    dropped = "the linker dropped the code of the USDT probe p:gone and kept its note"
    assert caught.value.message == f"{tmp_path}/elf: {dropped}"
    with pytest.raises(ElfError):
        sites_and_said(tmp_path, made, "odd")


@pytest.mark.parametrize("linker", [None, b"Linker: LLD 14.0.6\0", b"mold 1.10.1\0"])
def test_a_dropped_note_at_the_address_of_other_code_is_told_by_the_linker_s_name(
    linker: bytes | None, tmp_path: Path
) -> None:
    # The second note is in the middle of mov $0x90909090, %eax, the third at a function's own nop.
    notes = usdt_note("p", "a", address=TEXT_ADDRESS) + usdt_note("p", "b", address=TEXT_ADDRESS + 3)
    extra = [] if linker is None else [(".comment", 1, 0, linker)]
    code = b"\x90\xb8" + b"\x90" * 4 + b"\xc3"
    writer = ElfWriter(
        text=code, notes=notes, extra=extra, code_section=True, symbols=[("f", TEXT_ADDRESS, len(code), 0x12)]
    )
    found, said = sites_and_said(tmp_path, writer)
    if linker is None:
        assert len(found) == 2  # no other linker does so
    else:
        assert found == [f"{TEXT_ADDRESS:#x} a"]
        assert said == ["1 of 2 sites left out: the linker dropped their code and kept their notes"]


# --- operands that name symbols ------------------------------------------------------------------------------------


def test_a_global_is_found_by_address_by_fetch_offset_and_by_distance(tmp_path: Path) -> None:
    writer = ElfWriter(symbols=[LOCAL, ("v", DATA_ADDRESS + 8, 4, 0x11)])
    # The code's address equals its offset here, so `@+OFF` takes the variable's address itself, though its own file
    # offset is 0x1000 less.
    assert argument(tmp_path, writer, "-4@4+v(%rip)") == Global(DATA_ADDRESS + 12, DATA_ADDRESS + 12, 0x200C)


def test_a_local_twice_in_the_symbol_table_is_ambiguous(tmp_path: Path) -> None:
    writer = ElfWriter(symbols=[("ti", DATA_ADDRESS, 1, 1), ("ti", DATA_ADDRESS + 1, 1, 1)])
    expected = Unreadable("ti is the name of 2 different variables in this file")
    assert argument(tmp_path, writer, "-1@ti(%rip)") == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("8@none(%rip)", "none is not in the symbol table of this file"),
        ("8f@.LC0(%rip)", ".LC0 is a label of the compiler, which is in no symbol table"),
        ("4@t(%rip)", "t is a thread-local variable, whose place differs from thread to thread"),
        ("8@v(,%rcx,8)", "v is addressed as in a program that is always loaded at the same place"),
        ("8@$v", "the address of v is known only once the file is loaded"),
        ("8@v@GOTPCREL(%rip)", "no entry of the global offset table belongs to v"),
    ],
)
def test_symbols_that_cannot_be_placed_say_why(tmp_path: Path, text: str, reason: str) -> None:
    writer = ElfWriter(symbols=[LOCAL, ("v", DATA_ADDRESS, 4, 0x11), ("t", 16, 4, 0x16)])
    assert argument(tmp_path, writer, text) == Unreadable(reason)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8@v(,%rcx,8)", Global(DATA_ADDRESS, DATA_ADDRESS, 0x2000, "cx", 8)),
        ("8@v+8(%rax)", Mem("ax", DATA_ADDRESS + 8)),
        ("8@v(%rax,%rcx,4)", Mem("ax", DATA_ADDRESS, "cx", 4)),
        ("8@$v+4", Const(DATA_ADDRESS + 4)),
        ("8@v", Global(DATA_ADDRESS, DATA_ADDRESS, 0x2000)),
    ],
)
def test_a_program_of_fixed_addresses_may_use_them(tmp_path: Path, text: str, expected: Operand) -> None:
    writer = ElfWriter(symbols=[LOCAL, ("v", DATA_ADDRESS, 4, 0x11)], type=2)
    assert argument(tmp_path, writer, text) == expected


MAYBE = Unreadable("v may be a static variable, whose name was stripped, and not the exported one: a debug file tells")


def reads(address: int) -> bytes:
    """`nop; mov address(%rip), %eax; ret` at the beginning of the code."""
    return b"\x90\x8b\x05" + (address - TEXT_ADDRESS - 7).to_bytes(4, "little") + b"\xc3"


@pytest.mark.parametrize(
    ("code", "symbols", "expected"),
    [
        (b"\x90\xc3", [("v", DATA_ADDRESS, 4, 0x11)], MAYBE),
        (reads(DATA_ADDRESS + 4), [("v", DATA_ADDRESS, 4, 0x11)], MAYBE),
        (reads(DATA_ADDRESS), [("v", DATA_ADDRESS, 4, 0x11)], Global(DATA_ADDRESS, DATA_ADDRESS, 0x2000)),
        (b"\x90\x48\x8d" + reads(DATA_ADDRESS - 1)[2:], [("v", DATA_ADDRESS, 4, 0x11)], MAYBE),
        (
            b"\x90\xc3",
            [LOCAL, ("v", DATA_ADDRESS, 4, 1), ("v", DATA_ADDRESS + 4, 4, 0x11)],
            Unreadable("v is the name of 2 different variables in this file"),
        ),
        (
            reads(DATA_ADDRESS + 4),
            [LOCAL, ("v", DATA_ADDRESS, 4, 1), ("v", DATA_ADDRESS + 4, 4, 0x11)],
            Global(DATA_ADDRESS + 4, DATA_ADDRESS + 4, 0x2004),
        ),
        (b"\x90\xc3", [("_DYNAMIC", DATA_ADDRESS + 8, 8, 1), ("v", DATA_ADDRESS, 4, 0x11)], MAYBE),
    ],
    ids=["no use", "use of another", "use", "end of an array", "two", "use of one of two", "names of the linker"],
)
def test_a_name_in_a_table_without_locals_is_the_variable_that_the_code_around_the_site_uses(
    code: bytes, symbols: list[tuple[str, int, int, int]], expected: Operand, tmp_path: Path
) -> None:
    around = ("f", TEXT_ADDRESS, len(code), 0x12)
    assert argument(tmp_path, ElfWriter(text=code, symbols=[*symbols, around]), "-4@v(%rip)") == expected


HIDDEN_C = {
    "a.c": """
        #include <sys/sdt.h>
        static int level = 100;
        __attribute__((noinline)) void step(void) { DTRACE_PROBE1(lib, step, level); level++; }
    """,
    "b.c": "int level = -1;",
}


@pytest.mark.parametrize(
    ("stripped", "debug", "readable"),
    [((), False, True), (("--strip-unneeded",), False, False), (("-x",), False, False),
     (("--strip-unneeded",), True, True), (("-x",), True, True)],
    ids=["whole", "strip-unneeded", "strip-x", "strip-unneeded and debug file", "strip-x and debug file"],
)  # fmt: skip
def test_a_static_variable_is_never_taken_for_an_exported_one_of_its_name(
    stripped: tuple[str, ...], debug: bool, readable: bool, tmp_path: Path
) -> None:
    for name, text in HIDDEN_C.items():
        (tmp_path / name).write_text(text)
    path = tmp_path / "lib.so"
    subprocess.run(
        ["gcc", "-O1", "-fPIC", "-shared", "-Wl,--build-id", "-o", path, *HIDDEN_C], cwd=tmp_path, check=True
    )
    if debug:
        subprocess.run(["objcopy", "--only-keep-debug", path, tmp_path / "lib.debug"], check=True)
    if stripped:
        subprocess.run(["strip", *stripped, path], check=True)
    if debug:
        subprocess.run(["objcopy", f"--add-gnu-debuglink={tmp_path / 'lib.debug'}", path], check=True)
    binary = Binary(str(path))
    (operand,) = [spec.operand for spec in binary.arguments(binary.usdt[0])]
    if readable:
        assert isinstance(operand, Global)
        assert binary.elf.memory(operand.address, 4, "level") == (100).to_bytes(4, "little")
    else:
        assert operand == Unreadable(MAYBE.reason.replace("v may", "level may", 1))


# --- real programs --------------------------------------------------------------------------------------------------


def operands(binary: Binary, name: str) -> list[Operand]:
    return [spec.operand for note in binary.usdt if note.name == name for spec in binary.arguments(note)]


@pytest.mark.parametrize(
    "flags", [("-O2", "-no-pie"), ("-O2", "-pie"), ("-O0",), ("-Os",), ("-O2", "-shared", "-fPIC")]
)
def test_agrees_with_readelf_on_what_gcc_makes(build: Build, flags: Sequence[str]) -> None:
    for source in (PROBES_C, SEMAPHORE_C):
        path = str(build(source, *flags))
        assert ours(path) == readelfs(path) != []


def test_inlined_copies_keep_their_arguments_in_different_places(build: Build) -> None:
    binary = Binary(str(build(PROBES_C, "-O2")))
    found = [binary.arguments(note)[0].operand for note in binary.usdt if note.name == "order"]
    assert len(found) == 2 and found[0] != found[1]
    assert not any(isinstance(each, Unreadable) for each in found)


def test_constants_and_globals_of_a_compiled_program(build: Build) -> None:
    binary = Binary(str(build(PROBES_C, "-O2")))
    assert operands(binary, "consts") == [Const(1), Const(-16), Const(120)]
    address = {name: binary.symbols.variables(name)[0].address for name in ("counter", "pair", "private_level")}
    places = operands(binary, "globals")
    for place, expected in zip(
        places, (address["counter"], address["pair"] + 4, address["private_level"]), strict=True
    ):
        # gcc may load one into a register first.
        assert isinstance(place, Reg) or (isinstance(place, Global) and place.address == expected)
    assert any(isinstance(place, Global) for place in places)
    (element,) = operands(binary, "element")
    assert isinstance(element, Reg | Mem)


def test_a_got_slot_of_a_shared_library(build: Build) -> None:
    source = BY_HAND_C.replace("OPERAND", "8@g_int@GOTPCREL(%%rip)")
    binary = Binary(str(build(source, "-O2", "-shared", "-fPIC")))
    (found,) = operands(binary, "q")
    assert isinstance(found, GlobalPointer)
    relocations = subprocess.run(["readelf", "-rW", binary.path], capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in relocations.splitlines() if "g_int" in line] == [f"{found.slot.address:016x}"]


def test_stripping_takes_the_globals_away_and_nothing_else(build: Build) -> None:
    binary = Binary(str(build(PROBES_C, "-O2", "-s")))
    lost = [each for each in operands(binary, "globals") if isinstance(each, Unreadable)]
    assert lost and all(
        each.reason.endswith(" is not in the symbol table of this file, which is stripped") for each in lost
    )
    assert operands(binary, "consts") == [Const(1), Const(-16), Const(120)]


def test_semaphores_of_a_compiled_program_are_where_the_symbol_is(build: Build) -> None:
    binary = Binary(str(build(SEMAPHORE_C, "-O2")))
    for note_ in binary.usdt:
        (symbol,) = binary.symbols.variables(f"app_{note_.name}_semaphore")
        segment = binary.elf.segment_at(symbol.address)
        assert segment is not None and note_.semaphore == symbol.address
        assert semaphore_offset(binary.elf, note_) == symbol.address - segment.address + segment.offset


Row = tuple[str, str, int, int, str]


def ours(path: str) -> list[Row]:
    return sorted(
        {(each.provider, each.name, each.address, each.semaphore, each.arguments) for each in read_notes(Elf(path))}
    )


def readelfs(path: str) -> list[Row]:
    text = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
    rows = re.findall(
        r"Provider: (.*)\n\s+Name: (.*)\n\s+Location: 0x(\w+), Base: 0x\w+, Semaphore: 0x(\w+)\n\s+Arguments: ?(.*)",
        text,
    )
    return sorted({(provider, name, int(place, 16), int(sema, 16), args) for provider, name, place, sema, args in rows})


@pytest.mark.parametrize("path", REAL_FILES)
def test_agrees_with_readelf_on_real_programs(path: str) -> None:
    found = readelfs(path)
    assert ours(path) == found
    assert len(found) >= 8


@pytest.mark.parametrize("path", REAL_FILES)
def test_every_argument_of_real_programs_can_be_read(path: str) -> None:
    binary = Binary(path)
    unreadable = [
        (spec.text, spec.operand)
        for note_ in binary.usdt
        for spec in binary.arguments(note_)
        if isinstance(spec.operand, Unreadable)
    ]
    # The function uses it for the probe alone, and the file is stripped: it might be a static one.
    doubtful = ("-4@NBuffers(%rip)", Unreadable(MAYBE.reason.replace("v may", "NBuffers may", 1)))
    assert unreadable == ([doubtful] if path.endswith("/postgres") else [])
