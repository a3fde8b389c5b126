"""Files whose headers make little look like much are refused, or read, at a cost that is bounded by their size."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.resolve.elfwriter import TEXT_ADDRESS, ElfWriter, note, usdt_note
from tests.unit.resolve.sites.test_expand import fault, sites
from tracer.errors import ProgramError, TracerError
from tracer.kinds.site import Target
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.lines.programs import _starts
from tracer.resolve.elf import structures, symbol_table
from tracer.resolve.elf.file import MAX_SEGMENTS, Elf
from tracer.resolve.listing import list_lines
from tracer.resolve.safety import code, disassembly


def listed(path: Path, kind: str = "uprobe") -> str:
    return "".join(list_lines(f"{kind}:{path}:*", Target()))


def test_functions_that_lie_one_upon_the_other_are_not_decoded_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []

    def counted(content: bytes, address: int, machine: int) -> tuple[disassembly.Instruction, ...]:
        decoded.append(len(content))
        return disassembly.decode(content, address, machine)

    monkeypatch.setattr(code, "decode", counted)
    size = 4096
    path = ElfWriter(
        text=b"\x90" * (size - 1) + b"\xc3",
        symbols=[(f"f{number}", TEXT_ADDRESS + number, size - number, 0x12) for number in range(1000)],
        extra=[(".gopclntab", 1, 0, b"")],  # Go's, so each return is looked for
    ).write(tmp_path / "app")
    assert 256 <= len(sites(f"uretprobe:{path}:f*")) < 400  # the others are left out
    assert (1 << 20) < sum(decoded) <= (1 << 20) + 4 * size
    with pytest.raises(ProgramError, match="its functions are more than 4 times as large as its code"):
        sites(f"uretprobe:{path}:f*, uretprobe:{path}:f999")


def test_names_that_share_one_long_text_are_not_copied_for_each(tmp_path: Path) -> None:
    long = b"x" * (symbol_table.MAX_NAME - 1)
    table = symbol_table.Table(
        b"".join(struct.pack("<IBBHQQ", 1 + at % 4096, 0x12, 0, 1, TEXT_ADDRESS, 2) for at in range(200_000)),
        b"\0" + long + b"\0",
    )
    with pytest.raises(TracerError, match="its names are more than 4 times as long as their table"):
        table.functions  # noqa: B018


def test_a_name_without_end_is_cut_once() -> None:
    table = symbol_table.Table(
        b"".join(struct.pack("<IBBHQQ", at, 0x12, 0, 1, TEXT_ADDRESS, 2) for at in (1, 2, 50_000)),
        b"\0" + b"y" * 100_000 + b"\0",
    )
    assert [len(each.name) for each in table.functions] == [symbol_table.MAX_NAME, symbol_table.MAX_NAME - 1, 15540]
    assert structures.string_at(b"z" * 100_000, 3) == "z" * structures.MAX_STRING


def test_sections_that_lie_one_upon_the_other_are_not_read_for_each(tmp_path: Path) -> None:
    notes = usdt_note("p", "q") * 4000
    path = ElfWriter(notes=notes, extra=[(".note.stapsdt", 7, 0, b"")] * 500).write(tmp_path / "app")
    content = bytearray(path.read_bytes())
    first = content.index(notes)
    (table,) = struct.unpack_from("<Q", content, 40)
    (count,) = struct.unpack_from("<H", content, 60)
    for at in range(table, table + 64 * count, 64):
        if struct.unpack_from("<I", content, at + 4)[0] == 7:
            struct.pack_into("<QQ", content, at + 24, first, len(notes))
    path.write_bytes(content)
    with pytest.raises(TracerError, match="its sections are more than 8 times as large as it is"):
        listed(path, "usdt")


def compressed(size: int) -> bytes:
    return struct.pack("<IIQQ", 1, 0, size, 1) + zlib.compress(bytes(size))


@pytest.mark.parametrize(
    ("extra", "point", "message"),
    [
        ((".debug_line", 1, 0x800, compressed(1 << 26)), "a.c:3", "compressed in a way that is not supported"),
        ((".note.gnu.build-id", 7, 0, note(b"GNU", 9, b"") * 9), "f", None),
        ((".eh_frame", 1, 0, struct.pack("<IIB", 90_000, 0, 1) + b"S" * 90_000 + b"\0"), "f", None),
    ],
)
def test_what_unpacks_to_much_is_left(
    extra: tuple[str, int, int, bytes], point: str, message: str | None, tmp_path: Path
) -> None:
    name, kind, flags, content = extra
    path = ElfWriter(extra=[(name, kind, 0, content)], symbols=[("f", TEXT_ADDRESS, 2, 0x12)]).write(tmp_path / "app")
    if flags:
        binary = Binary(str(path))
        section = binary.elf.section(name)
        assert section is not None
        data = bytearray(path.read_bytes())
        (table,) = struct.unpack_from("<Q", data, 40)
        struct.pack_into("<Q", data, table + 64 * binary.elf.sections.index(section) + 8, flags)
        path.write_bytes(data)
    if message is None:
        assert sites(f"uprobe:{path}:{point}")
    else:
        assert message in fault(f"uprobe:{path}:{point}")[0]


def test_more_program_headers_than_a_kernel_loads_are_refused(tmp_path: Path) -> None:
    data = bytearray(ElfWriter(symbols=[("f", TEXT_ADDRESS, 2, 0x12)], data=bytes(1 << 17)).build())
    struct.pack_into("<H", data, 56, MAX_SEGMENTS + 1)
    with pytest.raises(TracerError, match=f"not a valid ELF file: {MAX_SEGMENTS + 1} program headers"):
        Elf("app", bytes(data)).segments  # noqa: B018


def test_the_beginnings_of_a_path_without_end_are_not_all_kept() -> None:
    assert len(_starts(b"/" * 100_000 + b"a.c\0", b"a.c\0")) <= 4097


@pytest.mark.parametrize("make", [lambda: b"", lambda: b"\0" * 64, lambda: b"\xff" * 4096])
def test_data_that_is_no_file_says_so(make: Callable[[], bytes], tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(make())
    assert fault(f"uprobe:{tmp_path}/app:f")[0].endswith("not an ELF file")
