"""Maps of stacks in the formats of `--stacks`, on both backends, against what the program knows of itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.conftest import need

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


def graph(page: bytes) -> dict[str, dict[str, int]]:
    """The values of all frames of each map in a page, under the names of their stacks from `main` on."""
    (data,) = re.findall(rb'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    found: dict[str, dict[str, int]] = {}
    for each in json.loads(data)["maps"]:
        above: list[str] = []
        for depth, frame, value in zip(each["depth"], each["frame"], each["value"], strict=True):
            above[depth:] = [each["names"][frame][0]]
            if "main" in above:
                found.setdefault(each["name"], {})[";".join(above[above.index("main") :])] = value
    return found


def test_a_page_is_made_of_a_run(backend: str, shop: Path, clean: None, tmp_path: Path) -> None:
    counted = "@n[ustack] = count(); @cents[ustack] = sum(arg0); @x = count();"
    program = f'uprobe:{shop}:sell {{ {counted} }} END {{ print("end"); }}'
    out = tmp_path / "out.html"
    done = tracer("flame", "-q", "--backend", backend, "-e", program, "-c", f"{shop} {TEA} {CAKE}", "-o", str(out))
    assert (done.status, done.said, done.printed) == (0, "", b"end\n@x: %d\n" % (TEA + 2 * CAKE))
    found = graph(out.read_bytes())
    assert found["@n"] == {
        "main": TEA + 2 * CAKE, "main;tea": TEA, "main;tea;sell": TEA, "main;cake": 2 * CAKE, "main;cake;sell": CAKE,
        "main;cake;tea": CAKE, "main;cake;tea;sell": CAKE,
    }  # fmt: skip
    assert found["@cents"]["main"] == (TEA + CAKE) * 150 + CAKE * 320


def test_a_page_is_made_of_what_was_saved(backend: str, shop: Path, clean: None, tmp_path: Path) -> None:
    program = f"uprobe:{shop}:sell {{ @[comm, ustack(perf)] = count(); }}"
    saved, words = tmp_path / "saved.json", ("-c", f"{shop} {TEA} {CAKE}")
    assert tracer("-q", "-f", "json", "--backend", backend, "-e", program, *words, "-o", str(saved)).status == 0
    done = tracer("flame", str(saved))
    assert (done.status, done.said) == (0, "")
    assert graph(done.printed)["@"]["main;cake"] == 2 * CAKE
    assert '"main",0,' in done.printed.decode()  # a function of the program, by its file


def test_what_else_is_printed_goes_to_stderr_where_stdout_has_the_document(shop: Path, clean: None) -> None:
    program = f'uprobe:{shop}:sell {{ @[ustack] = count(); }} END {{ print("end"); }}'
    done = tracer("--stacks", "svg", "-q", "-e", program, "-c", f"{shop} 1 1")
    assert (done.status, done.said) == (0, "end\n")
    assert done.printed.startswith(b"<svg ") and done.printed.endswith(b"</svg>\n")


def test_two_maps_of_a_run_are_compared(shop: Path, clean: None) -> None:
    body = "if (arg0 == 150) { @a[ustack] = count(); } else if (!arg0) { @b[ustack]++; }"
    program = f"uprobe:{shop}:sell {{ {body} }}"
    done = tracer("flame", "--diff", "-q", "-e", program, "-c", f"{shop} 5 1")
    assert done.status == 0 and list(graph(done.printed)) == ["@b against @a"]


def test_pprof_reads_a_run_with_build_ids(backend: str, shop: Path, clean: None, tmp_path: Path) -> None:
    need(shutil.which("go"), "go")
    program = f"uprobe:{shop}:sell {{ @[comm, ustack] = count(); }}"
    words = ("-q", "--backend", backend, "-e", program, "-c", f"{shop} {TEA} {CAKE}", "-o", str(tmp_path / "out.pb.gz"))
    done = tracer("flame", *words)
    assert (done.status, done.said, done.printed) == (0, "", b"")
    home = {**os.environ, "HOME": str(tmp_path), "GOPROXY": "off"}
    for flag, wanted in (("-top", "main"), ("-raw", "Mappings")):
        read = subprocess.run(
            ["go", "tool", "pprof", "-symbolize=none", flag, "out.pb.gz"], cwd=tmp_path, env=home, text=True,
            capture_output=True,
        )  # fmt: skip
        assert read.returncode == 0 and wanted in read.stdout, read.stderr
        if flag == "-top":
            rows = {line.split()[-1]: line.split() for line in read.stdout.splitlines() if "%" in line}
            assert rows["sell"][0] == str(TEA + 2 * CAKE) and rows["cake"][3] == str(2 * CAKE)
            assert rows["tea"][3] == str(TEA + CAKE)
        else:
            notes = subprocess.run(["readelf", "-n", shop], capture_output=True, text=True, check=True).stdout
            (mapping,) = [line.split() for line in read.stdout.splitlines() if f" {shop} " in line]
            assert f"Build ID: {mapping[3]}" in notes
