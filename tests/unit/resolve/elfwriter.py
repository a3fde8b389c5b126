"""Writes small ELF files, right and wrong, for the tests: sections, symbols, notes and segments by hand."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

TEXT_ADDRESS, DATA_ADDRESS = 0x1000, 0x3000
TEXT_OFFSET, DATA_OFFSET = 0x1000, 0x2000


def note(name: bytes, kind: int, description: bytes) -> bytes:
    name += b"\0"
    return (
        struct.pack("<III", len(name), len(description), kind)
        + name.ljust(len(name) + 3 & ~3, b"\0")
        + description.ljust(len(description) + 3 & ~3, b"\0")
    )


def usdt_note(
    provider: str, name: str, arguments: str = "", address: int = TEXT_ADDRESS, base: int = 0, semaphore: int = 0
) -> bytes:
    strings = b"".join(each.encode("utf-8", "surrogateescape") + b"\0" for each in (provider, name, arguments))
    return note(b"stapsdt", 3, struct.pack("<QQQ", address, base, semaphore) + strings)


@dataclass
class ElfWriter:
    """Code at TEXT_ADDRESS (executable), data at DATA_ADDRESS (writable; its address and offset differ otherwise than
    the code's), symbols (name, address, size, info) and notes."""

    text: bytes = b"\x90\xc3" + b"\x90" * 14
    data: bytes = bytes(64)
    symbols: list[tuple[str, int, int, int]] = field(default_factory=list)
    notes: bytes = b""
    base: int | None = None
    type: int = 3
    machine: int = 62
    entry: int = 0
    extra: list[tuple[str, int, int, bytes]] = field(default_factory=list)
    """Further sections: name, type, address, content."""
    code_section: bool = False
    """Whether the section of the code is marked as such."""

    def build(self) -> bytes:
        names, strings = b"\0", b"\0"
        symtab = bytes(24)
        for name, address, size, info in self.symbols:
            symtab += struct.pack("<IBBHQQ", len(strings), info, 0, 1, address, size)
            strings += name.encode("utf-8", "surrogateescape") + b"\0"
        sections: list[tuple[str, int, int, int, bytes | None, int, int]] = [
            ("", 0, 0, 0, b"", 0, 0),
            (".text", 1, TEXT_ADDRESS, TEXT_OFFSET, None, len(self.text), 0),
            (".data", 1, DATA_ADDRESS, DATA_OFFSET, None, len(self.data), 0),
            (".symtab", 2, 0, 0, symtab, 0, 4),
            (".strtab", 3, 0, 0, strings, 0, 0),
        ]
        if self.notes:
            sections.append((".note.stapsdt", 7, 0, 0, self.notes, 0, 0))
        if self.base is not None:
            sections.append((".stapsdt.base", 1, self.base, 0, b"\0", 0, 0))
        sections += [(name, kind, address, 0, content, 0, 0) for name, kind, address, content in self.extra]
        sections.append((".shstrtab", 3, 0, 0, b"", 0, 0))
        out = bytearray(DATA_OFFSET + len(self.data))
        out[TEXT_OFFSET : TEXT_OFFSET + len(self.text)] = self.text
        out[DATA_OFFSET:] = self.data
        headers = b""
        for name, kind, address, offset, content, size, link in sections:
            name_at = len(names)
            names += name.encode() + b"\0"
            if name == ".shstrtab":
                content = names
            if content is not None:
                while len(out) % 8:
                    out.append(0)
                offset, size = len(out), len(content)
                out += content
            entry_size = 24 if kind in (2, 11) else 0
            flags = 6 if name == ".text" and self.code_section else 2
            headers += struct.pack("<IIQQQQIIQQ", name_at, kind, flags, address, offset, size, link, 0, 1, entry_size)
        while len(out) % 8:
            out.append(0)
        section_offset = len(out)
        out += headers
        segments = struct.pack("<IIQQQQQQ", 1, 5, TEXT_OFFSET, TEXT_ADDRESS, 0, len(self.text), len(self.text), 0x1000)
        segments += struct.pack("<IIQQQQQQ", 1, 6, DATA_OFFSET, DATA_ADDRESS, 0, len(self.data), 0x1000, 0x1000)
        out[:64] = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
            "<HHIQQQIHHHHHH", self.type, self.machine, 1, self.entry, 64, section_offset, 0, 64, 56, 2, 64,
            len(sections), len(sections) - 1,
        )  # fmt: skip
        out[64 : 64 + len(segments)] = segments
        return bytes(out)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.build())
        return path
