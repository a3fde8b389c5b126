"""Registers by name: what they hold at a hit, and memory that is found through them."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer
from tests.targets.build import build

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_registers_at_a_function_and_behind_it(backend: str) -> None:
    path = build("depot")
    program = (
        f"uprobe:{path}:price {{ @at[usym(reg(\"ip\")), reg(\"pc\") == reg(\"ip\")] = count();"
        " if (*(uint64 *)(reg(\"sp\") + 0) != 0) { @returns = count(); } }"
        f" uretprobe:{path}:price {{ @same[reg(\"ax\") == retval, usym(reg(\"ip\"))] = count(); }}"
    )
    done = tracer("-q", "--backend", backend, "-e", program, "-c", f"{path} 7")
    assert done.status == 0
    lines = [line for line in done.text.splitlines() if line]
    assert lines == ["@at[price, true]: 7", "@returns: 7", "@same[true, round_of]: 7"]


def test_a_register_that_there_is_not() -> None:
    done = tracer("-e", 'uprobe:libc:malloc { print(reg("foo")); }')
    assert done.status == 2 and "there is no register 'foo' here; there are " in done.err
