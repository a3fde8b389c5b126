"""How CPython is recognised in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracer.resolve.elf.file import Elf
from tracer.resolve.interpreters.description import Image
from tracer.resolve.interpreters.python.interpreter import INTERPRETER, Text

DEBIAN = "/usr/bin/python3.11"


@pytest.mark.skipif(not Path(DEBIAN).exists(), reason="needs Debian's Python 3.11")
def test_debians_is_stripped_of_the_symbol_of_what_is_seldom_run() -> None:
    image = INTERPRETER.find(Elf(DEBIAN), DEBIAN)
    assert isinstance(image, Image)
    assert (image.version, image.layout.minor) == ("3.11", 11)
    (elsewhere, its_end), (start, end) = image.evaluates
    assert its_end <= start and end - start > 4 * (its_end - elsewhere) > 0


def test_other_programs_have_none() -> None:
    assert INTERPRETER.find(Elf("/bin/ls"), "/bin/ls") is None


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        (1, "Order.age", "Order.age"),
        (1, "caf\xe9", "caf\xe9"),
        (2, "naïve_λ", "naïve_λ"),
        (4, "𝔘.x", "𝔘.x"),
        (1, "a\n\x1b[31mb", "a\\n\\x1b[31mb"),
    ],
)
def test_names(kind: int, text: str, wanted: str) -> None:
    data = text.encode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind])
    assert str(Text(kind << 2, len(text), data.ljust(256, b"\xff"))) == wanted
    assert str(Text(kind << 2, len(text) + 9, data)) == wanted + "…"
    assert str(Text(0, 0, data)) == "?"
