"""The instructions that the four standard one-liners become, as `-d bytecode` prints them: the files in `bytecode/`.

    TRACER_WRITE_GOLDENS=1 pytest tests/golden/test_bytecode.py     writes them anew; read the difference first
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe
from tracer.backends.bcc.host.binding import NoBinding, find_binding
from tracer.backends.bcc.program import BccProgram

FILES = Path(__file__).parent / "bytecode"
LIBBCC = "0.26.0"
"""The version that made the files; another one may choose other instructions."""

MOST = {
    "count": ("@ = count();", 14),
    "hist": ("@ = hist(arg0);", 50),
    "few_keys": ("@[arg0 & 15] = count();", 15),
    "string_key": ("@[str(arg1)] = count();", 307),
}
"""Each one-liner, and how many instructions it may have at most. arg0 is a register of 4 bytes, arg1 one of 8."""


@pytest.mark.parametrize("name", MOST)
def test_a_one_liner_becomes_these_instructions(name: str) -> None:
    binding = find_binding()
    version = None if isinstance(binding, NoBinding) else binding.version
    if version is None:
        pytest.skip("there is no libbcc here")
    line, most = MOST[name]
    text = BccProgram(plan_of(probe(f"{{ {line} }}"))).bytecode()
    count = re.match(r"probe_0: (\d+) instructions\n", text)
    assert count is not None and int(count[1]) <= most
    if version != LIBBCC or platform.machine() != "x86_64":
        pytest.skip(f"the files were made by libbcc {LIBBCC} for x86-64")
    file = FILES / f"{name}.txt"
    if os.environ.get("TRACER_WRITE_GOLDENS"):
        file.write_text(text)
    assert text == file.read_text()
