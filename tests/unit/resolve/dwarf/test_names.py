"""How much of a file is gone through for a name."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.debug_entries import entries_of
from tracer.resolve.dwarf.units.names import named
from tracer.resolve.dwarf.units.unit import Unit
from tracer.resolve.elf.file import Elf

FUNCTIONS = 200
COMPILERS = [("gcc", "-gdwarf-5"), ("clang", "-gdwarf-4"), ("clang", "-gdwarf-5")]


@pytest.mark.parametrize("compiler", COMPILERS, ids=" ".join)
def test_a_function_s_name_is_found_by_few_walks_through_its_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: tuple[str, ...]
) -> None:
    source = tmp_path / "many.c"
    lines = (f"int price{n}(int n) {{ return n * {n}; }}" for n in range(FUNCTIONS))
    source.write_text("\n".join((*lines, "int main(void) { return 0; }")))
    subprocess.run([*compiler, str(source), "-o", str(tmp_path / "many")], check=True)
    walked, walk = [0], Unit.walk

    def counted(self: Unit, *args: object, **named: object) -> Iterator[tuple[int, int, object]]:
        for each in walk(self, *args, **named):  # type: ignore[arg-type]
            walked[0] += 1
            yield each

    monkeypatch.setattr(Unit, "walk", counted)
    entries = entries_of(Elf(str(tmp_path / "many")))
    assert entries is not None
    (found,) = named(entries, "price150", frozenset((dw.SUBPROGRAM,)))
    assert found.text() == "price150"
    assert walked[0] < 10 * FUNCTIONS
