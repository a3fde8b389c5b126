"""`join()` prints the strings of an array, as far as the traced program has them."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer
from tests.targets.build import build

pytestmark = pytest.mark.live

MANY = " ".join("yx"[number % 2] for number in range(16))


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_strings_are_joined_up_to_the_end_of_the_array(backend: str) -> None:
    path = build("lists")
    program = f'uprobe:{path}:list {{ printf("%d:", arg1); join(arg0); }}'
    done = tracer("-q", "--backend", backend, "-e", program, "-c", str(path))
    assert done.status == 0
    assert done.text.splitlines() == ["1:ls -l  /tmp dir", "2:solo", "3:", f"4:{MANY}", "5:", "6:7:solo"]
    assert "1 hit left out" in done.err  # its second pointer leads nowhere


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_a_separator_and_json(backend: str) -> None:
    path = build("lists")
    program = f'uprobe:{path}:list /arg1 < 3/ {{ join((int8 **)arg0, ", 5%"); }}'
    done = tracer("-q", "-f", "json", "--backend", backend, "-e", program, "-c", str(path))
    lines = [b'{"type": "join", "data": "ls, 5%-l, 5%, 5%/tmp dir"}\n', b'{"type": "join", "data": "solo"}\n']
    assert (done.status, done.out, done.err) == (0, b"".join(lines), "")
