"""Programs that trace nothing print what bpftrace 0.27.1 printed for them, to the byte: the files in `recorded/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cli import tracer

FILES = Path(__file__).parent / "recorded"


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("name", sorted(path.stem for path in FILES.glob("*.bt")))
def test_the_output_is_that_of_bpftrace(name: str, format: str) -> None:
    recorded = (FILES / f"{name}.{'txt' if format == 'text' else 'jsonl'}").read_bytes()
    done = tracer("-q", "-f", format, str(FILES / f"{name}.bt"))
    assert (done.status, done.printed.decode()) == (0, recorded.decode()), done.err
