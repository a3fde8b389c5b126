"""What answers are kept for: those who found them, as they are now."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracer
from tracer.kinds.site import Reg, Unreadable
from tracer.resolve import marshalling

PACKAGE = Path(tracer.__file__).parent


@pytest.mark.parametrize("name", ["resolve/dwarf/units/unit.py", "resolve/elf/symbols.py", "lang/types/outside.py"])
def test_whoever_reads_belongs_to_the_version_of_answers(name: str) -> None:
    status = (PACKAGE / name).stat()
    assert repr((Path(name).name, status.st_size, status.st_mtime_ns)) in marshalling.version()


def test_values_come_back_as_they_were() -> None:
    classes: dict[str, type] = {"Reg": Reg, "Unreadable": Unreadable}
    for value in (3, "text", None, (), (1, ("a", ())), Unreadable("because"), (Unreadable("x"), 2)):
        assert marshalling.rebuilt(marshalling.plain(value, classes), classes) == value
