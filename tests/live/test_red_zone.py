"""Probes on nops leave the data of the function alone that lies below the stack pointer."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer, tracing
from tracer.kernel.trials.red_zone import spoils_red_zone

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="a red zone of x86-64")


@pytest.mark.parametrize("probe", ["both", "ten"])
def test_a_site_of_two_nops_is_probed_and_the_target_goes_right(
    backend: str, probe: str, place: Callable[[str], Path]
) -> None:
    program = place("redzone")
    text = f"usdt:{program}:redzone:{probe} {{ @ = sum(arg0); }}"
    done = tracer("-q", "--backend", backend, "-e", text, "-c", f"{program} 5000")
    assert done.text.split() == ["...", "wrong", "0", "@:", f"{sum(range(5000))}"]


def test_a_site_of_a_nop_and_a_ten_byte_one_counts_for_everybody_too_whom_nobody_has_in_memory_yet(
    backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    program = place("redzone")
    text = f"usdt:{program}:redzone:t* {{ @[probe, func] = sum(arg0); }}"
    with tracing(tmp_path, "--backend", backend, "-e", text) as running:
        assert subprocess.run([program, "5000"], capture_output=True).stdout.endswith(b"wrong 0\n")
        done = running.stop()
    assert done.text == f"@[usdt:{program}:redzone:ten, ten]: {sum(range(5000))}\n"


def test_a_five_byte_nop_in_a_leaf_is_refused_where_the_kernel_makes_it_a_call(
    backend: str, place: Callable[[str], Path]
) -> None:
    program = place("redzone")
    text = f"usdt:{program}:redzone:alone {{ @ = count(); }}"
    done = tracer("-q", "--backend", backend, "-e", text, "-c", f"{program} 5000")
    if not spoils_red_zone():
        assert done.text.split() == ["...", "wrong", "0", "@:", "5000"]
        return
    assert done.status == 2 and done.text == ""
    first, caret, *rest = done.err.splitlines()
    assert (first, rest) == (text, [])
    assert caret.startswith("^" * len(f"usdt:{program}:redzone:alone") + f" error: usdt:{program}:redzone:alone at 0x")
    assert caret.endswith(
        "is a five-byte nop, which this kernel turns into a call: that overwrites data that the function may keep"
        " below the stack pointer; probe the function's start, or another place"
    )


def test_a_five_byte_nop_in_a_function_that_calls_is_probed(backend: str, place: Callable[[str], Path]) -> None:
    program = place("redzone")
    text = f"usdt:{program}:redzone:calls {{ @ = sum(arg0); }}"
    done = tracer("-q", "--backend", backend, "-e", text, "-c", f"{program} 10")
    assert done.text.split() == ["...", "wrong", "0", "@:", "3"]
