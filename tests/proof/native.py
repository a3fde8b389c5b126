"""The C of BCC's programs, compiled natively and run over hits: many programs in one file, against shim.c."""

from __future__ import annotations

import ctypes
import functools
import itertools
import platform
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.proof.tables import maps_of
from tests.proof.world import CHILD_PID, STARTED, Hit, Memory, pack
from tracer.backends.bcc.codegen.generate import FULL_MAPS, Generated
from tracer.backends.bcc.codegen.maps.steps import FIRST_TABLE
from tracer.backends.bcc.events.records import Record, decoder, mark_in
from tracer.plan.model import Plan
from tracer.results.events import Loss

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "bpf_programs"
_MOST_TABLES = 64
_LOSSES = ("events", "unreadable", "truncated", "keys", "loops", "stacks", "busy", "outrun", "divisions")
_CONTROL_WORDS = 128
_FIXED_CONTROL = 5
_RECORD, _MAPS = 1, 2
_OUT_WORDS = 1 << 20
_numbers = itertools.count()

mistake = ("", "")
"""What a test of the tests has in place of something in bpf_programs."""


def prelude() -> str:
    """bpf_programs for a native compiler: helpers are functions of the shim, and so is the control block."""
    text = (SOURCES / "prelude.h").read_text()
    text = text.replace('#include "held.h"', "")  # of events of the kernel, which random programs have not
    for name in ("text.h", "maps.h"):
        text = text.replace(f'#include "{name}"', (SOURCES / name).read_text())
    right, wrong = mistake
    assert not right or text.count(right) == 1
    text = text.replace(right, wrong) if right else text
    text = re.sub(r"static ([^;=]+?)\(\*(\w+)\)(\([^;=]*\)) = \(void \*\)\d+;", r"\1\2\3;", text)
    text = re.sub(r"#define CONTROL .*", "#define CONTROL shim_control", text)
    text = re.sub(r"#define EACH\(.*", "#define EACH(function, number) ((u64)(function))", text)
    text = re.sub(r"#define OPAQUE\(x\) .*", "#define OPAQUE(x) ((void)0)", text)
    text = re.sub(r'_Pragma\("clang [^"]*"\)', "", text)  # tcc takes none within a function
    return f"""{(HERE / "shim.h").read_text()}
#define SLEEPABLE 1
#define COOKIES 1
#define SCRATCH MAP(3)
#define SCRATCH_SLOTS 64
#define SITE_TEXTS MAP(1000)
#define LOSSES MAP(1)
#define FULL_MAPS {FULL_MAPS}
#define RING MAP(2)
{text}
#undef REGISTER
#define REGISTER(member) (ctx->member)
#define place_of(process, address) (process)
static void *enter_native(void) {{ return enter(); }}
#define enter() enter_native()
"""


QUICK, PLAIN, OPTIMISED = "quick", "plain", "optimised"
"""Compilers: the quickest one, one that has the last word, and one that takes undefined behaviour for none, as clang
does for BPF. Debian 12's tcc 0.9.27 compiles `(u16)(s8)x` wrongly.
"""


def compile_many(programs: Sequence[Generated], folder: Path, kernel_reads: bool, compiler: str) -> Natives:
    """Compiles programs together."""
    texts = [f"#define KERNEL_READS {int(kernel_reads)}\n", prelude()]
    names: list[str] = []
    for number, generated in enumerate(programs):
        text, own = _renamed(generated.text, number), dict.fromkeys(generated.functions.values())
        texts.append(text)
        names += [f"{name}_{number}" for name in own]
    texts.append(f"int (*functions[])(struct pt_regs *) = {{{', '.join(names)}}};\n")
    # A name of its own: the dynamic loader knows libraries by their names.
    source, library = folder / "programs.c", folder / f"programs{next(_numbers)}.so"
    source.write_text("".join(texts))
    _compile(source, library, compiler)
    return Natives(programs, library)


def _renamed(text: str, number: int) -> str:
    text = re.sub(r"^#(?:define|include) .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\b(control|scratch|probe_\d+(?:_(?:each|round|quick)_\d+)?)\b", rf"\1_{number}", text)


def _compile(source: Path, library: Path, compiler: str) -> None:
    command = ["cc", "-O2" if compiler == OPTIMISED else "-O0", "-std=gnu11"]
    if compiler == QUICK and shutil.which("tcc"):
        command = ["tcc"]
    command += ["-w", "-shared", "-fPIC", f"-I{HERE}", "-o", str(library), str(source)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise AssertionError(f"{source} does not compile:\n{made.stderr[:4000]}")


@functools.cache
def shim() -> ctypes.CDLL:
    """shim.c, loaded so that programs find it."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "shim.so"
        _compile(HERE / "shim.c", library, PLAIN)
        found = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    found.shim_run.restype = ctypes.c_ulonglong
    return found


class Natives:
    """Compiled programs."""

    def __init__(self, programs: Sequence[Generated], library: Path) -> None:
        self._programs = programs
        self._loader = shim()
        self._library = ctypes.CDLL(str(library))
        self._functions = ctypes.addressof(ctypes.c_char.in_dll(self._library, "functions"))
        self._first: list[int] = []
        total = 0
        for generated in programs:
            self._first.append(total)
            total += len(set(generated.functions.values()))
        self._out = ctypes.create_string_buffer(8 * _OUT_WORDS)

    def close(self) -> None:
        """Unloads them."""
        import _ctypes

        _ctypes.dlclose(self._library._handle)

    def set_memory(self, memory: Memory) -> None:
        """What programs read from here on."""
        self._bytes = [ctypes.create_string_buffer(page, len(page)) for page in memory.pages.values()]
        words = [
            word
            for address, held in zip(memory.pages, self._bytes, strict=True)
            for word in (address, ctypes.addressof(held))
        ]
        self._pages = struct.pack(f"={len(words)}Q", *words)
        self._loader.shim_memory(self._pages, ctypes.c_ulonglong(len(memory.pages)))

    def run(self, number: int, plan: Plan, hits: Sequence[Hit]) -> dict[str, object]:
        """What a program does, as `python.run` says it."""
        generated = self._programs[number]
        functions = list(dict.fromkeys(generated.functions.values()))
        variants = [variant for probe in plan.probes for variant in probe.variants]
        of_site = {site: variant.id for variant in variants for site in variant.sites}
        sites = plan.program.clauses[0].sites
        cookies = generated.site_texts.cookies
        packed = b"".join(
            pack(
                hit,
                functions.index(generated.functions[of_site[sites[hit.site]]]),
                cookies.get(of_site[sites[hit.site]], 0),
                platform.machine(),
            )
            for hit in hits
        )
        tables = b"".join(
            struct.pack("=4Q", table.grid is not None, size, table.value_size, table.max_entries)
            for table in generated.tables.values()
            for size in ((4,) if table.key is None else table.key.sizes)
        )
        count = sum(len(table.numbers) for table in generated.tables.values())
        words = b"".join(generated.site_texts.words.values()) + bytes(8)
        shows = bytes(record.kind == "map" for record in generated.records) + b"\0"
        keep = [ctypes.create_string_buffer(part, len(part)) for part in (tables + b"\0", words, shows)]
        program = struct.pack(
            "=7Q",
            ctypes.addressof(keep[0]),
            count,
            ctypes.addressof(keep[1]),
            generated.site_texts.count,
            ctypes.addressof(keep[2]),
            STARTED,
            CHILD_PID,
        )
        written = self._loader.shim_run(
            program,
            ctypes.c_void_p(self._functions + 8 * self._first[number]),
            packed,
            ctypes.c_ulonglong(len(hits)),
            self._out,
            ctypes.c_ulonglong(_OUT_WORDS),
        )
        return _Output(plan, generated, ctypes.string_at(self._out, 8 * written)).read()


class _Output:
    """What the shim wrote about one program."""

    def __init__(self, plan: Plan, generated: Generated, data: bytes) -> None:
        self.plan = plan
        self.generated = generated
        self.data = data
        self.at = 0
        self.events: list[object] = []

    def word(self) -> int:
        self.at += 8
        return int(struct.unpack_from("=Q", self.data, self.at - 8)[0])

    def read(self) -> dict[str, object]:
        tag = self.word()
        while tag == _RECORD:
            size = self.word()
            data = self.data[self.at : self.at + size]
            self.at += -(-size // 8) * 8
            self.record(self.generated.records[struct.unpack_from("=Q", data)[0]], data)
            tag = self.word()
        assert tag == _MAPS
        elements = self.elements()
        self.word()
        kept = self.word()
        loss = Loss(**{name: self.word() for name in _LOSSES}, full=frozenset())
        full = [self.word() for _ in range(FIRST_TABLE + _MOST_TABLES)]
        for name, table in self.generated.tables.items():
            if keys := sum(full[FIRST_TABLE + number] for number in table.numbers):
                loss.found_full(name, keys)
        control = struct.unpack_from(f"={_CONTROL_WORDS}Q", self.data, self.at)
        marks = _FIXED_CONTROL + self.generated.control[0] + 2 * self.generated.control[1] + len(self.generated.records)
        now = {name: control[marks + index] for name, index in self.generated.marks.items()}
        return {
            "events": self.events,
            "maps": {
                name: maps_of(self.plan.program.maps[name], self.generated.tables.get(name), elements, now.get(name))
                for name in self.plan.program.maps
            },
            "loss": loss,
            "exiting": control[0] != 0,
            "slots kept": kept,
        }

    def elements(self) -> list[tuple[int, bytes, bytes]]:
        sizes = [
            (-(-size // 8) * 8, size, table.value_size)
            for table in self.generated.tables.values()
            for size in ((4,) if table.key is None else table.key.sizes)
        ]
        found = []
        for _ in range(self.word()):
            number = self.word()
            padded, key, value = sizes[number]
            found.append((number, self.data[self.at : self.at + key], self.data[self.at + padded :][:value]))
            self.at += padded + value
        return found

    def record(self, record: Record, data: bytes) -> None:
        match record.kind:
            case "printf" | "value":
                values = decoder(record.types)(data, 0)
                self.events.append((record.kind, record.index, values if record.kind == "printf" else values[0]))
            case "exit" if record.types:
                self.events.append(("exit", decoder(record.types)(data, 0)[0]))
            case "time" | "exit":
                self.events.append((record.kind, record.index))
            case "map":
                assert self.word() == _MAPS
                table = self.generated.tables.get(record.map)
                mark = mark_in(data, 0) if record.map in self.generated.marks else None
                shown = maps_of(self.plan.program.maps[record.map], table, self.elements(), mark)
                self.events.append(("map", record.map, record.top, record.div, shown))
