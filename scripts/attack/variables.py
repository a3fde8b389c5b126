"""scripts/attack/variables [--programs N] [--stops N]: what tracer reads of variables, against gdb and the programs.

Samples of C, C++, Rust and Go, CPython's debug build where it is installed, and random programs of C are compiled with
-O0 to -O3. gdb stops each at places of its code, and each variable in scope is read as gdb does and at the place that
tracer has for it. The random programs record what their variables hold on each line. Each value that differs is
printed, and at the end a table; Ctrl-C ends it with what was tried by then. Needs no root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from scripts.attack.random_c import Names, program
from tests.harness.cli import ROOT
from tracer.errors import TracerError
from tracer.kinds.model import AttachPoint, SiteLimit
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.inline_frames import line_table
from tracer.resolve.dwarf.units.debug_entries import entries_of
from tracer.resolve.elf.file import Elf
from tracer.resolve.sites.line_sites import line_sites

TARGETS = Path(ROOT) / "tests/targets"
_SPAN_LIMIT = SiteLimit(1 << 16, 1 << 16)
ALL = ("0", "1", "2", "3")

SAMPLES: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("C", "variables.c", ("gcc", "-g", "-O{0}"), ALL),
    ("C", "variables.c", ("clang", "-g", "-O{0}"), ALL),
    ("C", "variables.c", ("gcc", "-g", "-O{0}", "-flto"), ("2",)),
    ("C", "variables.c", ("gcc", "-gdwarf-{0}", "-O2"), ("2", "3", "4")),
    ("C", "variables.c", ("gcc", "-gdwarf-{0}", "-O2", "-gsplit-dwarf"), ("4", "5")),
    ("C", "variables.c", ("gcc", "-gdwarf-{0}", "-O2", "-fdebug-types-section"), ("4", "5")),
    ("C++", "captures.cc", ("g++", "-std=c++17", "-g", "-O{0}"), ALL),
    ("C++", "captures.cc", ("clang++", "-std=c++17", "-g", "-O{0}"), ALL),
    ("Rust", "records.rs", ("rustc", "-g", "-Copt-level={0}"), ALL),
    ("Go", "records.go", ("go", "build", "-gcflags={0}"), ("all=-N -l", "")),
)
"""Language, source, the compiler's words, and what takes the place of {0}."""


def places(path: str, of: Callable[[str], bool]) -> list[int]:
    """The addresses where statements of some source files begin."""
    entries = entries_of(Elf(path), keep=True)
    addresses = set()
    for unit in entries.units if entries is not None else ():
        table = None if unit.type_at or entries is None else line_table(entries, unit)
        for row in table.rows(0, 1 << 64) if table is not None else ():
            if row.path and of(row.path) and row.line and row.is_stmt and row.address:
                addresses.add(row.address)
    return sorted(addresses)


def by_gdb(path: str, addresses: list[int], stops: int, folder: str, **more: object) -> list[dict[str, object]]:
    """The reports of `inside_gdb` on each variable at each stop."""
    out = f"{folder}/found"
    packages = [str(ROOT), *(entry for entry in sys.path if entry.endswith("-packages"))]
    job = {"path": path, "args": [], "addresses": addresses, "stops": stops, "out": out, "packages": packages, **more}
    run = subprocess.run(
        ["gdb", "-batch", "-nx", "-x", f"{ROOT}/scripts/attack/inside_gdb.py"], stdin=subprocess.DEVNULL,
        env={**os.environ, "VARIABLES_JOB": json.dumps(job)}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    if "Traceback" in run.stderr or not os.path.exists(out):
        raise RuntimeError(run.stderr[-2000:])
    with open(out) as file:
        reports = [json.loads(line) for line in file]
    os.unlink(out)
    return reports


def built(source: Path, words: tuple[str, ...], level: str, folder: str) -> str:
    """Compiles a sample."""
    path = f"{folder}/sample"
    for old in Path(folder).glob("sample*"):
        old.unlink()
    command = [*(word.format(level) for word in words), "-o", path, str(source)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return path


def recorded(seed: int, compiler: str, level: str, folder: str) -> list[dict[str, object]]:
    """A random program: what is read where it records its own variables."""
    text, names = program(seed)
    source = Path(folder) / f"random{seed}.c"
    source.write_text(text)
    path = built(source, (compiler, "-w", "-g", "-O{0}"), level, folder)
    return by_gdb(path, sorted(lines := _lines(path, source.name, names)), 4, folder, names=names, lines=lines)


def _lines(path: str, source: str, names: Names) -> dict[int, int]:
    line_of: dict[int, int] = {}
    binary = Binary(path)
    for line in names:
        try:
            point = AttachPoint("uprobe", "", None, path, source=source, line=line)  # type: ignore[arg-type]
            line_of.update((site.address, line) for site in line_sites(point, binary, _SPAN_LIMIT, []))
        except TracerError:
            continue  # nothing is left of it
    return line_of


def _word(report: dict[str, object]) -> str:
    result, reason = str(report["result"]), str(report.get("reason") or "")
    if result not in ("refused", "neither"):
        return result
    if reason.startswith("passed in") or "called with" in reason:
        reason = "passed in a register and overwritten"
    elif "floating" in reason:
        reason = "floating-point register"
    elif reason.startswith("nothing is said about"):
        reason = "nothing is said about the inlined copy"
    return f"{'neither reads it' if result == 'neither' else 'refused'}: {reason}"


def _samples(stops: int, folder: str) -> Iterator[tuple[str, list[dict[str, object]]]]:
    for language, source, words, levels in SAMPLES:
        for level in levels:
            path = built(TARGETS / source, words, level, folder)
            addresses = places(path, lambda name, source=source: name.endswith(source))  # type: ignore[misc]
            chosen = sorted(random.Random(1).sample(addresses, min(stops, len(addresses))))
            yield language, by_gdb(path, chosen, 2, folder)
    python = "/usr/bin/python3.11d"
    if os.path.exists(python):
        files = ("listobject.c", "dictobject.c", "unicodeobject.c", "longobject.c", "call.c")
        addresses = places(python, lambda name: name.endswith(files))
        chosen = sorted(random.Random(1).sample(addresses, min(3 * stops, len(addresses))))
        yield "CPython", by_gdb(python, chosen, 1, folder, args=["-c", "'import json;json.dumps([1,dict(a=2)])'"])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="variables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=100, help="random programs, each compiled in eight ways")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first")
    parser.add_argument("--stops", type=int, default=120, help="places in each sample")
    asked = parser.parse_args()
    tables: dict[str, Counter[str]] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        randoms = (
            (f"random C, {compiler} -O{level}", recorded(seed, compiler, level, folder))
            for seed in range(asked.first, asked.first + asked.programs)
            for compiler in ("gcc", "clang")
            for level in ALL
        )
        for name, reports in chain(_samples(asked.stops, folder) if asked.stops else (), randoms):
            tables.setdefault(name, Counter()).update(map(_word, reports))
            for report in reports:
                if report["result"] in ("differs", "gdb failed"):
                    wrong += 1
                    print(name, report)
    for name, counts in tables.items():
        print(f"\n{name}: {sum(counts.values())}")
        for word, count in counts.most_common():
            print(f"    {count:7} {word}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
