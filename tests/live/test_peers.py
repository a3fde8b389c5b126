"""The lines of other tools in docs/peers.md: each is run on both backends, and answers what the program did, and what
the other tool says where it is here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.harness.cli import ROOT, tracer, tracing, until
from tests.live.conftest import need
from tests.targets.build import build
from tracer import pipeline
from tracer.errors import Source

pytestmark = pytest.mark.live

NUMBERS = range(1, 11)
TOTALS = [3 * number for number in NUMBERS]
NAMES = ["odd" if number % 2 else "even" for number in NUMBERS]
BEFORE = [sum(TOTALS[:done]) for done in range(10)]

GDB = "gdb's dprintf and break … commands"
SAYS = {
    "perf-tools and uprobe_events": {
        "uprobe 'p:FILE:sell'": ["shop"] * 10,
        "uprobe 'r:FILE:sell total=$retval:s32'": [f"total={total}" for total in TOTALS],
        "uprobe 'p:FILE:sell number=%di:s32 name=+0(%si):string' 'number > 8'": [
            "number=9 name=odd", "number=10 name=even",
        ],
        "uprobe -L TID 'p:FILE:sell'": ["@of_thread: 10"],
        "uprobe_events: p:shop/sell FILE:0xOFFSET price=+0(%dx):s32": ["price=3"] * 10,
        "uprobe_events: p:shop/sell FILE:0xOFFSET item=+0(+8(%dx)):string": ["@item[nail]: 10"],
        "uprobe_events: p:shop/sell FILE:0xOFFSET caller=$stack0:symbol": ["@caller[main]: 10"],
    },
    "SystemTap's statements and variables": {
        'probe begin { println("begin") }': ["begin"],
        'probe process("FILE").function("sell") { printf("%s(%d)\\n", ppfunc(), $number) }': [
            f"sell({number})" for number in NUMBERS
        ],
        'probe process("FILE").function("sell").return { printf("= %d\\n", $return) }': [
            f"= {each}" for each in TOTALS
        ],
        'probe process("FILE").statement("*@shop.c:16") { printf("total %d\\n", $total) }': [
            f"total {each}" for each in TOTALS
        ],
        'probe process("FILE").provider("shop").mark("sold") { printf("%d %s\\n", $arg1, user_string($arg2)) }': [
            f"{number} {name}" for number, name in zip(NUMBERS, NAMES, strict=True)
        ],
        'probe process("FILE").function("sell") { if ($number == 7) printf("price %d\\n", $item->price) }': ["price 3"],
        'probe process("FILE").function("sell") { printf("before %d\\n", @var("sold@shop.c")) }': [
            f"before {each}" for each in BEFORE
        ],
        'global names; probe process("FILE").function("sell") { names[user_string($name)] <<< $number }': [
            "@names[odd]: { .count = 5, .average = 5, .total = 25 }",
            "@names[even]: { .count = 5, .average = 6, .total = 30 }",
        ],
    },
    GDB: {
        'dprintf sell,"sell %d %s\\n",number,name': [
            f"sell {number} {name}" for number, name in zip(NUMBERS, NAMES, strict=True)
        ],
        'break shop.c:16; commands; silent; printf "total %d\\n",total; continue; end': [
            f"total {each}" for each in TOTALS
        ],
        'break sell if number == 7; commands; silent; printf "price %d\\n",item->price; continue; end': ["price 3"],
        'break sell; commands; silent; printf "di %d\\n",$edi; continue; end': [f"di {number}" for number in NUMBERS],
        "break sell; commands; silent; finish; end": [f"Value returned is {each}" for each in TOTALS],
    },
    "ltrace": {
        "ltrace -x sell FILE": [*(f"sell({number})" for number in NUMBERS), *(f"= {total}" for total in TOTALS)],
        "ltrace -c -x sell FILE": ["@calls[sell]: 10"],
        "ltrace -e printf FILE": ["@of_libc[printf]: 1"],
    },
    "DTrace's pid provider": {
        "dtrace -n 'pid$target::sell:entry { @[probefunc] = count(); }' -c FILE": ["@[sell]: 10"],
        "dtrace -n 'pid$target::sell:return { @total = sum(arg1); }' -c FILE": ["@total: 165"],
        "dtrace -n 'pid$target::sell:entry /arg0 > 8/ { printf(\"%s\", copyinstr(arg1)); }' -c FILE": ["odd", "even"],
        "dtrace -n 'shop$target:::sold { @sold[execname] = max(arg0); }' -c FILE": ["@sold[shop]: 10"],
        "dtrace -n 'pid$target::sell:entry { self->t = timestamp; } pid$target::sell:return /self->t/"
        " { @timed = count(); self->t = 0; }'": ["@timed: 10"],
    },
}  # fmt: skip


def recipes() -> dict[str, dict[str, str]]:
    """The programs of the page, by section and by the other tool's line."""
    page = (ROOT / "docs/peers.md").read_text().partition("## Lines of other tools\n")[2]
    sections = dict(re.findall(r"^### (.*)\n((?:(?!###).*\n)*)", page, re.M))
    return {
        name: dict(re.findall(r"^    // (.*)\n    (.*)$", text, re.M)) for name, text in sections.items()
    }


def place(path: Path) -> str:
    """Where the function is in the file."""
    return f"{pipeline.plan(Source(f'uprobe:{path}:sell {{ }}'))[0].places[0].offset:x}"


def written(text: str, path: Path) -> str:
    return text.replace("FILE", str(path)).replace("OFFSET", place(path)).replace("TID", "cpid")


def test_each_line_of_the_page_is_run() -> None:
    assert {name: list(found) for name, found in recipes().items()} == {
        name: list(found) for name, found in SAYS.items()
    }


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
@pytest.mark.parametrize("section", SAYS)
def test_the_lines_of_a_tool_say_here_what_the_program_did(section: str, backend: str) -> None:
    path = build("shop")
    program = "\n".join(written(text, path) for text in recipes()[section].values())
    done = tracer("--backend", backend, "-c", str(path), "-e", program)
    assert done.status == 0, done.err
    said = sorted(line for lines in SAYS[section].values() for line in lines)
    assert sorted(filter(None, done.text.splitlines())) == sorted([*said, "165"])  # which the program prints


def by_gdb(script: Path, text: str) -> str:
    """What gdb prints for a script."""
    need(shutil.which("gdb"), "gdb")
    script.write_text(text)
    command = ["gdb", "-q", "-nx", "-batch", "-x", str(script), str(build("shop"))]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize("line", [line for line in SAYS[GDB] if "finish" not in line])
def test_gdb_says_the_same(line: str, tmp_path: Path) -> None:
    told = by_gdb(tmp_path / "script", "\n".join([*line.split("; "), "run", ""]))
    said = SAYS[GDB][line]
    assert [each for each in told.splitlines() if each.startswith(said[0].split()[0] + " ")] == said


def test_gdb_finishes_with_the_same_results(tmp_path: Path) -> None:
    told = by_gdb(tmp_path / "script", "break sell\nrun\n" + "finish\ncontinue\n" * 10)
    assert re.findall(r"^Value returned is \$\d+ = (\d+)$", told, re.M) == [str(total) for total in TOTALS]


def test_ltrace_says_the_same() -> None:
    need(shutil.which("ltrace"), "ltrace")
    done = subprocess.run(["ltrace", "-x", "sell", build("shop")], capture_output=True, text=True, timeout=60)
    calls = re.findall(r"^sell\((\d+), .*\) += (\d+)$", done.stderr, re.M)
    assert calls == [(str(number), str(total)) for number, total in zip(NUMBERS, TOTALS, strict=True)]


def test_uprobe_of_perf_tools_says_the_same(tmp_path: Path) -> None:
    need(shutil.which("uprobe-perf"), "uprobe-perf")
    path = tmp_path / "shop"  # whose name no other trace has
    path.write_bytes(build("shop").read_bytes())
    path.chmod(0o755)
    line = f"p:shop_{os.getpid()} {path}:0x{place(path)} number=%di:s32 name=+0(%si):string"
    script = 'mount -t debugfs none /sys/kernel/debug && exec uprobe-perf -d 2 "$1" "$2"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", line, "number > 8"]
    with tracing(tmp_path, "-e", f"uprobe:{path}:sell {{ @ = count(); }}") as trace:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as peer:
            assert peer.stdout is not None
            assert "Tracing uprobe" in peer.stdout.readline()
            # It says so before it begins, and empties the buffer then.
            until(lambda: any(child.name() == "sleep" for child in psutil.Process(peer.pid).children()))
            subprocess.run([path], check=True, capture_output=True)
            told = peer.stdout.read()
        done = trace.stop()
    assert re.findall(r'number=(\d+) name="(\w+)"', told) == [("9", "odd"), ("10", "even")]
    assert done.text == "@: 10\n"
