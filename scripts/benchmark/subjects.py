"""The programs that are traced: built into a directory that only this run uses, and what they say about themselves."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from scripts.benchmark.model import BenchError

_HITS, _MANY = (Path(__file__).with_name(name) for name in ("hits.c", "many.c"))


@dataclass(frozen=True)
class Place:
    """The place of a probe: file offsets of the instruction and, 0 for none, of the semaphore."""

    offset: int
    semaphore: int


@dataclass(frozen=True)
class Cost:
    """The output of a target about itself: nanoseconds of its processor's time a hit, and how many hits there were."""

    ns: float
    hits: int


@dataclass(frozen=True)
class Subjects:
    """The directory of a run with the traced program in it."""

    home: Path

    @property
    def hits(self) -> Path:
        """The program of hits.c."""
        return self.home / "hits"

    @property
    def usdt(self) -> str:
        """The attach point of its probe."""
        return f"usdt:{self.hits}:bench:hit"

    @property
    def function(self) -> str:
        """The attach point of its function."""
        return f"uprobe:{self.hits}:bench_hit"

    @property
    def result(self) -> Path:
        """The file into which a target writes its line."""
        return self.home / "result"

    def command(self, what: str, hits: int, threads: int = 1, keys: int = 0, length: int = 0) -> list[str]:
        """A run of it: see hits.c for what the words say."""
        return [str(self.hits), what, str(hits), str(self.result), str(threads), str(keys), str(length)]

    def many(self, functions: int) -> Path:
        """The program of many.c with so many functions site_0, site_1, …; built when it is first asked for."""
        program = self.home / f"many{functions}"
        if not program.exists():
            source = program.with_suffix(".s")
            source.write_text(_assembly(functions))
            compile_c([str(_MANY), str(source)], program)
        return program

    def forget(self) -> None:
        """Removes the file of its line before a run, so that no line of the one before is taken for its own."""
        self.result.unlink(missing_ok=True)

    def cost(self) -> Cost | None:
        """The output of the last run; None if it did not end."""
        try:
            words = self.result.read_text().split()
        except FileNotFoundError:
            return None
        return Cost(float(words[1]), int(words[2])) if len(words) == 3 else None


@contextmanager
def subjects() -> Iterator[Subjects]:
    """Builds them, and removes them afterwards."""
    with TemporaryDirectory(prefix="tracer-bench.") as place:
        built = Subjects(Path(place))
        compile_c([str(_HITS)], built.hits)
        yield built


def _assembly(functions: int) -> str:
    """Functions of a nop and a return, 16 bytes apart as compilers place them, and a table of them."""
    bodies = "\n".join(
        f".p2align 4\n.globl {name}\n.type {name}, @function\n{name}:\nnop\nret\n.size {name}, .-{name}"
        for name in (f"site_{number}" for number in range(functions))
    )
    table = "\n".join(f".quad site_{n}" for n in range(functions))
    return (
        f'.text\n{bodies}\n.section .data.rel.ro, "aw"\n.p2align 3\n.globl functions\nfunctions:\n{table}\n'
        f".globl functions_count\nfunctions_count:\n.quad {functions}\n"
        '.section .note.GNU-stack, "", @progbits\n'
    )


def compile_c(sources: list[str], program: Path) -> None:
    """By the C compiler of the machine."""
    command = ["cc", "-O2", "-pthread", *sources, "-o", str(program)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise BenchError("a C compiler is needed to build what is traced; install gcc") from None
    if done.returncode:
        raise BenchError(f"{' '.join(command)} failed:\n{done.stderr}")


def place_of_usdt(program: Path) -> Place:
    """The place of its only USDT probe."""
    with program.open("rb") as file:
        elf = ELFFile(file)
        for section in elf.iter_sections():
            if isinstance(section, NoteSection) and section.name == ".note.stapsdt":
                note = next(iter(section.iter_notes()))
                words = bytes(note["n_descdata"])
                address, semaphore = (int.from_bytes(words[start : start + 8], "little") for start in (0, 16))
                return Place(_offset(elf, address), _offset(elf, semaphore) if semaphore else 0)
    raise BenchError(f"{program} has no USDT probe")


def place_of_function(program: Path, name: str) -> Place:
    """The place of the first instruction of a function."""
    with program.open("rb") as file:
        elf = ELFFile(file)
        for section in elf.iter_sections():
            if isinstance(section, SymbolTableSection) and (symbols := section.get_symbol_by_name(name)):
                return Place(_offset(elf, symbols[0]["st_value"]), 0)
    raise BenchError(f"{program} has no function {name}")


def _offset(elf: ELFFile, address: int) -> int:
    for segment in elf.iter_segments("PT_LOAD"):
        if segment["p_vaddr"] <= address < segment["p_vaddr"] + segment["p_filesz"]:
            return int(address - segment["p_vaddr"] + segment["p_offset"])
    raise BenchError(f"address {address:#x} is in no segment")
