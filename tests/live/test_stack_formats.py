"""Maps of stacks in the formats of `--stacks`, on both backends, against what the program knows of itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.harness.cli import tracer

pytestmark = pytest.mark.live

SHOP_C = r"""
#include <stdlib.h>
volatile long sold;
__attribute__((noinline)) void sell(long cents) { sold += cents; asm volatile(""); }
__attribute__((noinline)) void tea(long n) { while (n--) sell(150); asm volatile(""); }
__attribute__((noinline)) void cake(long n) { while (n--) { sell(320); tea(1); } asm volatile(""); }
int main(int argc, char **argv) { tea(atol(argv[1])); cake(atol(argv[2])); return 0; }
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stands")
    (folder / "shop.c").write_text(SHOP_C)
    words = ["gcc", "-w", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-inline", "shop.c"]
    subprocess.run([*words, "-o", "shop"], cwd=folder, check=True)
    return folder / "shop"


TEA, CAKE = 700, 300


def lines(text: bytes) -> dict[str, int]:
    """The folded stacks from `main` on, and what they begin with."""
    found = {}
    for line in text.decode().splitlines():
        stack, _, value = line.rpartition(" ")
        found[re.sub(r"(^|;)_start;.*;main", r"\1main", stack)] = int(value)
    return found


def test_folded_counts_are_the_programs_own(backend: str, shop: Path, clean: None) -> None:
    program = f"uprobe:{shop}:sell {{ @[comm, ustack] = count(); }}"
    done = tracer("-q", "--backend", backend, "--stacks", "folded", "-e", program, "-c", f"{shop} {TEA} {CAKE}")
    assert (done.status, done.err) == (0, "")
    assert lines(done.printed) == {
        "shop;main;tea;sell": TEA, "shop;main;cake;sell": CAKE, "shop;main;cake;tea;sell": CAKE,
    }  # fmt: skip


def test_sums_and_other_maps_beside_them(backend: str, shop: Path, clean: None) -> None:
    program = f"uprobe:{shop}:sell {{ @cents[ustack] = sum(arg0); @n = count(); }} END {{ printf(\"closed\\n\"); }}"
    done = tracer("-q", "--backend", backend, "--stacks", "folded", "-e", program, "-c", f"{shop} {TEA} {CAKE}")
    assert (done.status, done.err) == (0, "")
    first, *stacks, last = done.printed.splitlines(keepends=True)
    assert (first, last) == (b"closed\n", b"@n: %d\n" % (TEA + 2 * CAKE))
    assert lines(b"".join(stacks)) == {
        "main;tea;sell": TEA * 150, "main;cake;sell": CAKE * 320, "main;cake;tea;sell": CAKE * 150,
    }  # fmt: skip
