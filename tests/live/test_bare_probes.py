"""A probe without a body shows its hits."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import tracer
from tests.targets.build import build

pytestmark = pytest.mark.live

BODIES: dict[str, list[Any]] = {
    "uprobe:{}:work": [{"record": None, "text": None, "round": n} for n in (-1, 0)],
    "uprobe:{}:work /(int64)arg2 < 0/": [{"record": None, "text": None, "round": -1}],
    "usdt:{}:fields:step /arg0 == 1/": [{"arg0": 1, "arg1": None}],
    "uretprobe:{}:work": [-9, -7],
    "call:{}:work /(int64)arg2 < 0/": [{"record": None, "text": None, "round": -1}],
    "uprobe:{}:work+3": [None, None],
}


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_hits_have_their_time_their_process_and_what_is_known_of_the_arguments(backend: str) -> None:
    app = build("fields")
    for text, expected in BODIES.items():
        program = text.format(app)
        done = tracer("-q", "-f", "json", "--backend", backend, "-e", program, "-c", f"{app} 2")
        hits = [json.loads(line)["data"] for line in done.out.splitlines() if b'"value"' in line]
        assert (done.status, done.err, len(hits)) == (0, "", len(expected)), program
        for hit, known in zip(hits, expected, strict=True):
            assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6}", hit["time"]) and hit["pid"] == hit["tid"] > 0
            assert (hit["comm"], hit["probe"]) == ("fields", program.partition(" ")[0])
            assert ("duration" in hit) == program.startswith("call")
            if isinstance(known, int):
                assert int(hit["retval"]) == known
            elif known is not None:
                assert list(hit["args"]) == list(known)
                assert {name: hit["args"][name] for name, value in known.items() if value is not None} == {
                    name: value for name, value in known.items() if value is not None
                }


REALS = r"""
__attribute__((noinline)) double twice(double d, int i) { __asm__ volatile("" : "+r"(i)); return 2 * d + i; }
int main(int count, char **words) { return twice(count, 7) < 0 || !words; }
"""


def test_a_parameter_that_cannot_be_read_is_no_other_register(tmp_path: Path) -> None:
    app = tmp_path / "reals"
    command = ["gcc", "-O1", "-g", "-x", "c", "-", "-o", str(app)]
    subprocess.run(command, input=REALS, text=True, check=True)
    for backend in ("bcc", "ftrace"):
        done = tracer("-q", "--backend", backend, "-e", f"uprobe:{app}:twice", "-c", str(app))
        assert done.out.decode().rstrip("\n").endswith(f".probe = uprobe:{app}:twice, .args = {{ .d = ?, .i = 7 }} }}")


def test_text_has_a_line_for_each_hit() -> None:
    app = build("fields")
    done = tracer("-q", "-e", f"uprobe:{app}:work", "-c", f"{app} 1")
    line = rf"\{{ \.time = [0-9:.]+, \.comm = fields, \.pid = (\d+), \.tid = \1, \.probe = uprobe:{app}:work, \.args = "
    assert re.fullmatch(line + r"\{ \.record = 0x\w+, \.text = 0x\w+, \.round = -1 \} \}\n", done.out.decode())
