"""Reads what tracing needs of an ELF file: header, segments, sections, notes, the dynamic section.

The reader is lean on purpose: a list of libjvm's 57,000 symbols must not take seconds, so tables are decoded with
`struct.iter_unpack` over whole sections. Everything is read with pread and never mapped: a file that somebody truncates
while it is mapped kills the reader by SIGBUS.

Input is hostile until proven otherwise. Every offset and size is checked against the file's real size before anything
is read, no read exceeds `MAX_READ`, and whatever does not fit raises `ElfError`, one line, with the file's name.
Headers can make one byte of the file part of thousands of tables: all sections that are read are together no more than
some times the file, so the time it takes is bounded by its size; so it is for names (`symbol_table`) and code (`code`).

Layouts: System V ABI (gABI), chapters 4 and 5; the notes' layout is that of Elf64_Nhdr.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cached_property

from tracer.errors import TracerError, printable
from tracer.kinds.arch import ARCHES
from tracer.kinds.site import FileIdentity
from tracer.opening import NOT_REGULAR, opened
from tracer.resolve.elf.structures import (
    ELF32,
    ELF64,
    ET_DYN,
    ET_EXEC,
    ET_REL,
    PF_X,
    PT_DYNAMIC,
    PT_LOAD,
    PT_NOTE,
    SHT_NOBITS,
    ElfError,
    Section,
    Segment,
    notes,
    string_at,
)

MAX_READ = 1 << 28
"""The most bytes read for one table. Chromium with all its symbols stays below; a sparse file cannot claim more."""
MAX_SECTIONS = 1 << 14
MAX_SEGMENTS = 1170
"""The number that fits into the 64 KiB that Linux reads (fs/binfmt_elf.c, load_elf_phdrs)."""

_AT_LEAST, _TIMES = 4 << 20, 8
"""All the sections that are read have so many bytes, or so many times the file's size."""
_MAX_BUILD_IDS = 64
_MAX_DYNAMIC = 1 << 16


_OTHERS = (
    (b"PK\3\4", "a zip archive"), (b"#!", "a script"), (b"!<arch>\n", "an archive of object files"),
    (b"MZ", "a program for Windows"), (b"\xca\xfe\xba\xbe", "a class of Java, or a program for macOS"),
)  # fmt: skip
_NO_TEXT = frozenset(range(32)) - frozenset(b"\t\n\r\f\x1b")


class Elf:
    """An open ELF file. A context manager; also closes when it is collected."""

    def __init__(
        self, path: str, content: bytes | None = None, descriptor: int | None = None, label: str | None = None,
        objects: bool = False,
    ) -> None:
        """Opens and checks `path`; with `content` the file's bytes come from there and `path` is only its name.

        `descriptor` is an already open file, which then belongs to this object. `label` is what errors call the file.
        `objects`: an object file will do, as dwz writes one.
        """
        self.path = path
        self._label = printable(label or path)
        self._content = content
        self._objects = objects
        self._fd = -1
        self._contents = 0
        if content is not None:
            self.size = len(content)
            self._stat = None
        else:
            self._fd = _open(path, self._label) if descriptor is None else descriptor
            status = os.fstat(self._fd)
            if not stat.S_ISREG(status.st_mode):
                self.close()
                raise self.error(NOT_REGULAR)
            self._stat = status
            self.size = status.st_size
        try:
            self._read_header()
        except TracerError:
            self.close()
            raise

    def __enter__(self) -> Elf:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; what was read stays usable."""
        descriptor, self._fd = getattr(self, "_fd", -1), -1
        if descriptor >= 0:
            os.close(descriptor)

    @property
    def inode(self) -> int:
        """The number of the open file; 0 where there is none."""
        return 0 if self._stat is None else self._stat.st_ino

    @property
    def version(self) -> object:
        """A value that is equal for the same content of the same file."""
        status = self._stat
        return None if status is None else (status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def error(self, what: str, hint: str | None = None) -> ElfError:
        """An error that names this file."""
        return ElfError(f"{self._label}: {printable(what)}", hint if hint is None else printable(hint))

    # --- raw access -----------------------------------------------------------------------------------------------

    def read(self, offset: int, size: int, what: str) -> bytes:
        """Reads exactly `size` bytes of the file from `offset`; errors name them by `what` ("the symbol table")."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise self.error(f"truncated ELF file: {what} would end at byte {offset + size} of {self.size}")
        if size > MAX_READ:
            raise self.error(f"unusable ELF file: {what} would take {size} bytes")
        if self._content is not None:
            return self._content[offset : offset + size]
        data = os.pread(self._fd, size, offset)
        while len(data) < size:  # pread gives at most 2 GiB at once, and less where the file shrank meanwhile
            more = os.pread(self._fd, size - len(data), offset + len(data))
            if not more:
                raise self.error("the file was truncated while it was read")
            data += more
        return data

    def some(self, offset: int, size: int) -> bytes:
        """The bytes of the file from `offset`, at most `size`."""
        return self.read(offset, min(size, self.size - offset), "the code")

    def _read_header(self) -> None:
        if self.size < 4 or self.read(0, 4, "the header") != b"\x7fELF":
            raise self.error(f"{self._kind()}, not an ELF file", self._remedy())
        if self.size < 16:
            raise self.error(f"truncated ELF file: the header would end at byte 64 of {self.size}")
        ident = self.read(0, 16, "the header")
        if ident[4] not in (1, 2):
            raise self.error(f"not a valid ELF file: class {ident[4]}")
        if ident[5] == 2:
            raise self.error("big-endian ELF files are not supported")
        if ident[5] != 1:
            raise self.error(f"not a valid ELF file: byte order {ident[5]}")
        self.layout = ELF64 if ident[4] == 2 else ELF32
        fields = self.layout.header.unpack_from(self.read(0, 16 + self.layout.header.size, "the header"), 16)
        self.type: int = fields[0]
        self.machine: int = fields[1]
        self.word = self.layout.word
        if self.machine in ARCHES and ARCHES[self.machine].word != self.word:
            bits = f"{8 * self.word}-bit files for {ARCHES[self.machine].name}"
            raise self.error(f"{bits} are not supported" if self.word == 4 else f"not a valid ELF file: {bits}")
        self.entry: int = fields[3]
        self._phoff, self._shoff = fields[4], fields[5]
        self._phentsize, self._phnum, self._shentsize, self._shnum, self._shstrndx = fields[8:13]
        if self.type not in (ET_EXEC, ET_DYN) and not (self._objects and self.type == ET_REL):
            what = {1: "an object file", 4: "a core dump"}.get(self.type, f"an ELF file of type {self.type}")
            raise self.error(f"neither a program nor a shared library but {what}")

    def _kind(self) -> str:
        """The words for a file that begins otherwise."""
        start = self.some(0, 512)
        if not start:
            return "an empty file"
        for mark, kind in _OTHERS:
            if start.startswith(mark):
                return kind
        text = start.decode("utf-8", "replace").removesuffix("\ufffd")  # the last character may be cut
        return "a flat binary without any header" if "\ufffd" in text or _NO_TEXT & {*start} else "a text file"

    def _remedy(self) -> str | None:
        if self.some(0, 4) == b"PK\3\4":
            return "unpack the library that is in it, and let the program load that"
        return None

    # --- tables ---------------------------------------------------------------------------------------------------

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The program headers."""
        if not self._phoff or not self._phnum:
            return ()
        if self._phnum > MAX_SEGMENTS:
            raise self.error(f"not a valid ELF file: {self._phnum} program headers")
        layout, places = self.layout.segments, self.layout.segment
        if self._phentsize != layout.size:
            raise self.error(f"not a valid ELF file: program headers of {self._phentsize} bytes")
        data = self.read(self._phoff, self._phnum * layout.size, "the program header table")
        return tuple(Segment(*[row[place] for place in places]) for row in layout.iter_unpack(data))

    @cached_property
    def loads(self) -> tuple[Segment, ...]:
        """The PT_LOAD segments."""
        return tuple(segment for segment in self.segments if segment.type == PT_LOAD)

    @cached_property
    def has_section_headers(self) -> bool:
        """Whether parts that are not loaded can be found. Their headers may be cut off behind all that is loaded."""
        if not self._shoff:
            return False
        if self._shoff >= self.size and self.loads:
            return any(segment.offset + segment.file_size > self.size for segment in self.loads)
        # gABI: a number that does not fit into the header stands in section 0.
        layout = self.layout.sections
        return bool(self._shnum or layout.unpack(self.read(self._shoff, layout.size, "the section headers"))[5])

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The section headers; of a file that carries none, what its dynamic section names."""
        if not self.has_section_headers:
            from tracer.resolve.elf.dynamic_sections import dynamic_sections

            return dynamic_sections(dict(self.dynamic), self.segment_at, self.memory, self.word)
        layout = self.layout.sections
        if self._shentsize != layout.size:
            raise self.error(f"not a valid ELF file: section headers of {self._shentsize} bytes")
        count, names_index = self._shnum, self._shstrndx
        first = layout.unpack(self.read(self._shoff, layout.size, "the section header table"))
        # gABI: numbers that do not fit into the header stand in section 0.
        count = count or first[5]
        names_index = first[6] if names_index == 0xFFFF else names_index
        if count > MAX_SECTIONS:
            raise self.error(f"not a valid ELF file: {count} sections")
        data = self.read(self._shoff, count * layout.size, "the section header table")
        rows = list(layout.iter_unpack(data))
        if names_index >= len(rows):
            raise self.error(f"not a valid ELF file: no section {names_index} for the section names")
        names = b""
        if names_index and rows[names_index][1] != SHT_NOBITS:
            names = self.read(rows[names_index][4], rows[names_index][5], "the table of section names")
        return tuple(
            Section(string_at(names, name), kind, flags, address, offset, size, link, entry_size)
            for name, kind, flags, address, offset, size, link, _, _, entry_size in rows
        )

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    def content(self, section: Section) -> bytes:
        """A section's bytes; none for one that the file does not hold (NOBITS)."""
        if section.type == SHT_NOBITS:
            return b""
        data = self.read(section.offset, section.size, f"section {printable(section.name) or '(unnamed)'}")
        self._contents += section.size
        if self._contents > max(_AT_LEAST, _TIMES * min(self.size, MAX_READ)):
            raise self.error(f"unusable ELF file: its sections are more than {_TIMES} times as large as it is")
        return data

    def linked(self, section: Section) -> Section:
        """The section that `section.link` names, such as the strings of a symbol table."""
        if section.link >= len(self.sections):
            raise self.error(f"not a valid ELF file: no section {section.link}, which {printable(section.name)} names")
        return self.sections[section.link]

    # --- addresses ------------------------------------------------------------------------------------------------

    def segment_at(self, address: int) -> Segment | None:
        """The PT_LOAD segment whose file-backed part holds the address."""
        return next((segment for segment in self.loads if segment.holds(address)), None)

    def offset_of(self, address: int) -> int | None:
        """The file offset of a virtual address, or None where the file holds nothing for it."""
        segment = self.segment_at(address)
        if segment is None:
            return None
        offset = address - segment.address + segment.offset
        return offset if offset < self.size else None

    def address_of(self, offset: int) -> int | None:
        """The virtual address that a file offset is loaded at, executable segments first."""
        for segment in sorted(self.loads, key=lambda load: not load.flags & PF_X):
            if segment.offset <= offset < segment.offset + segment.file_size:
                return offset - segment.offset + segment.address
        return None

    def memory(self, address: int, size: int, what: str) -> bytes | None:
        """Up to `size` bytes that the file holds for `address`, cut at the segment's end; None where it holds none."""
        segment = self.segment_at(address)
        if segment is None:
            return None
        size = min(size, segment.address + segment.file_size - address)
        return self.read(address - segment.address + segment.offset, size, what)

    # --- notes and the dynamic section ----------------------------------------------------------------------------

    @cached_property
    def build_id(self) -> str | None:
        """The GNU build id in hexadecimal, or None."""
        places = [(section.offset, section.size) for section in self.sections if section.name == ".note.gnu.build-id"]
        places += [(segment.offset, segment.file_size) for segment in self.segments if segment.type == PT_NOTE]
        for offset, size in places[:_MAX_BUILD_IDS]:
            if offset + size > self.size or size > 1 << 20:
                continue
            for note in notes(self.read(offset, size, "the notes")):
                if note.name == b"GNU" and note.type == 3 and note.description:
                    return note.description.hex()
        return None

    @cached_property
    def dynamic(self) -> tuple[tuple[int, int], ...]:
        """The tags and values of the dynamic section, without the terminating DT_NULL."""
        segment = next((candidate for candidate in self.segments if candidate.type == PT_DYNAMIC), None)
        if segment is None:
            return ()
        data = self.read(segment.offset, segment.file_size, "the dynamic section")
        rows = []
        layout = self.layout.dynamic
        for tag, value in layout.iter_unpack(data[: min(len(data) // layout.size, _MAX_DYNAMIC) * layout.size]):
            if tag == 0:
                break
            rows.append((tag, value))
        return tuple(rows)

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The libraries of DT_NEEDED."""
        return tuple(self.dynamic_strings(1))

    @cached_property
    def soname(self) -> str | None:
        """The name by which other files need this one (DT_SONAME)."""
        return next(iter(self.dynamic_strings(14)), None)

    def dynamic_strings(self, tag: int) -> Iterator[str]:
        """The strings that the entries of one tag of the dynamic section name."""
        values = dict(self.dynamic)
        if tag not in values or 5 not in values:  # DT_STRTAB
            return
        strings = self.memory(values[5], min(values.get(10, 0), MAX_READ), "the dynamic strings") or b""  # DT_STRSZ
        for entry_tag, value in self.dynamic:
            if entry_tag == tag:
                yield string_at(strings, value)

    @cached_property
    def identity(self) -> FileIdentity:
        """The identity of this file; of bytes in memory, their number alone."""
        if self._stat is None:
            return FileIdentity(0, 0, self.size, 0, self.build_id)
        status = self._stat
        return FileIdentity(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, self.build_id, status.st_ctime_ns
        )


def _open(path: str, label: str) -> int:
    try:
        return opened(path)
    except FileNotFoundError:
        raise ElfError(f"{label}: no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if isinstance(error, IsADirectoryError) or reason == NOT_REGULAR:
            raise ElfError(f"{label}: {NOT_REGULAR}") from None
        raise ElfError(f"{label}: cannot be read: {reason}") from None
