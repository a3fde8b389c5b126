"""`tracer uprobe` and `tracer usdt` against the kernel's own events of the same lines, at the same hits."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.targets.build import build
from tracer.kernel.tracefs import MOUNT_POINT, put

pytestmark = pytest.mark.live

TRACEFS = Path(MOUNT_POINT)
_NUMBERS = count()

# Where the targets' objects are, which are not loaded elsewhere: `{name}` in a line.
NAMES = ("work", "number", "text", "record")

VALUES = [
    "%ip", "%ax", "%si", "%r8", "%flags", "%cs", "%ss", "%orig_ax:s64", "%dx", "x=%dx:x8", "n=%dx:s32", "%dx:u16",
    "%dx:b3@1/8", "$stack", "$stack:u8", "$stack0", "$stack2", "$stack0:u16", "$comm", "name=$COMM", "\\5", "\\-1:s8",
    "\\0xffffffff", "\\18446744073709551615:u64", "@{number}:s32", "@{number}", "@{text}:string", "@+{text_offset}:x32",
    "@+{text_offset}:ustring", "+0(%si):string", "+9(%si):ustring", "+u0(%si):string", "-0(%di):s32", "+0(%di):s32",
    "low=+4(%di):b3@0/32", "middle=+4(%di):b7@3/32", "high=+4(%di):b22@10/32", "+8(%di):s16[4]", "+8(%di):x16[2]",
    "+8(%di):b4@4/16[2]", "+0x10(%di)", "+0(+16(%di)):string", "+16(%di):string[1]", "+6(+0x10(%di)):u8[3]",
    "+0(\\{text}):string", "+0($stack)", "-8($stack):u32",
]  # fmt: skip
CHARS = ["+0(%si):char", "+0(%si):char[4]", "\\65:char"]
OF_RETURNS = ["$retval", "$retval:s32", "%cs", "%bx", "$comm", "@{number}:s32", "\\7:u8", "@{text}:string"]
FILTERS = [
    "n == -1 || n & -2 && s ~ \"*tex?\"",
    "!n == 0 && (x >= 0x1 && x < 255 || s == 'argument text' && n < 0)",
    "low == 5 && !(n == 0) && comm == \"fields\" && common_pid > 0",
    "s != \"argument text\" || n == 0 || !(s ~ \"arg*\") || n & 1 && x <= 01",
]


@pytest.fixture(scope="module")
def app() -> Path:
    return build("fields")


@pytest.fixture(scope="module")
def known(app: Path) -> dict[str, str]:
    """The addresses of the target's objects, and the offset that @+ takes for one."""
    lines = subprocess.run(["nm", app], capture_output=True, text=True, check=True).stdout.splitlines()
    found = {words[2]: int(words[0], 16) for words in map(str.split, lines) if len(words) == 3}
    base = 0x400000  # a program that is not position independent
    offsets = {f"{name}_offset": hex(found[name] - base) for name in NAMES}
    return {**{name: hex(found[name]) for name in NAMES}, **offsets}


@contextmanager
def kernel_event(line: str, filter: str | None = None) -> Iterator[list[str]]:
    """An event of the kernel's with a name that nobody else has, in an instance of its own; at the end of the block
    its lines of the trace are there.
    """
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    instance = TRACEFS / "instances" / name
    lines: list[str] = []
    put(str(TRACEFS / "uprobe_events"), line.replace("GROUP", name, 1) + "\n")
    try:
        instance.mkdir()
        event = instance / "events" / name / "ev"
        if filter is not None:
            (event / "filter").write_text(filter)
        (event / "enable").write_text("1")
        try:
            yield lines
        finally:
            (event / "enable").write_text("0")
            text = (instance / "trace").read_bytes().decode("utf-8", "replace")
            lines += [each for each in text.splitlines() if not each.startswith("#")]
    finally:
        if instance.exists():
            instance.rmdir()
        put(str(TRACEFS / "uprobe_events"), f"-:{name}/ev\n")


def compared(lines: list[str]) -> list[str]:
    """Lines of a trace without the state of the kernel and the time, whose clock is another."""
    return [re.sub(r"\] \S{5,6} +[0-9.]+: ", "] ", line) for line in lines if line.strip()]


def ours(app: Path, backend: str, *words: str) -> list[str]:
    done = tracer("uprobe", "-q", "--backend", backend, *words, "-c", f"{app} 4")
    assert (done.status, done.err) == (0, "")
    return done.out.decode().splitlines()


def knows_chars() -> bool:
    return "char" in (TRACEFS / "README").read_text().partition("type:")[2].partition("\n")[0]


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_each_value_and_type_is_what_the_kernels_own_event_reports(
    app: Path, known: dict[str, str], backend: str
) -> None:
    values = " ".join(VALUES + CHARS * knows_chars()).format(**known)
    place = f"{app}:{known['work_offset']}"
    with kernel_event(f"p:GROUP/ev {place} {values}") as lines:
        found = ours(app, backend, f"p:GROUP/ev {place} {values}")
    assert len(lines) == 4
    assert compared(found) == compared(lines)


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
@pytest.mark.parametrize("letter", ["r", "p"])
def test_returns_are_those_of_the_kernels_own_event(
    app: Path, known: dict[str, str], backend: str, letter: str
) -> None:
    """Where a return is, the kernel says by addresses, and tracer by the function's name."""
    values = " ".join(OF_RETURNS).format(**known)
    place = f"{app}:{known['work_offset']}{'%return' if letter == 'p' else ''}"
    with kernel_event(f"{letter}:GROUP/ev {place} {values}") as lines:
        found = ours(app, backend, f"{letter}:GROUP/ev {place} {values}")
    assert len(lines) == 4
    assert compared(found) == [re.sub(r"\(0x\w+ <- 0x\w+\)", "(<- work)", line) for line in compared(lines)]


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_filters_let_through_what_the_kernels_do(app: Path, known: dict[str, str], backend: str) -> None:
    line = f"p:GROUP/ev {app}:{known['work_offset']} n=%dx:s32 x=%dx:x8 s=+0(%si):string low=+4(%di):b3@0/32"
    for filter in FILTERS:
        with kernel_event(line, filter) as lines:
            found = ours(app, backend, line, filter)
        assert compared(found) == compared(lines), filter


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_json_has_an_object_for_each_event(app: Path, backend: str) -> None:
    line = f"p:ev {app}:work n=%dx:s32 +8(%di):s16[4] +0(%si):string"
    found = [
        json.loads(event)["data"]
        for event in ours(app, backend, line, "n == 2", "-f", "json")
        if '"value"' in event
    ]
    assert [{name: each[name] for name in ("event", "comm", "args")} for each in found] == [
        {"event": "ev", "comm": "fields", "args": {"n": 2, "arg2": [1, -2, 3, -4], "arg3": "argument text"}}
    ]


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_a_semaphore_is_raised_where_it_is_that_of_the_note(app: Path, backend: str) -> None:
    listed = tracer("list", "--json", f"usdt:{app}:fields:step")
    (site,) = json.loads(listed.out)["sites"]
    semaphore = int(site["semaphore"], 16) - 0x400000
    found = ours(app, backend, f"p:step {app}:{site['offset']}({hex(_in_file(app, semaphore + 0x400000))}) \\1:u8")
    assert [line.partition("step: ")[2].partition(") ")[2] for line in found if line] == ["arg1=1"] * 4
    wrong = tracer("uprobe", f"p:step {app}:{site['offset']}(0x10)")
    assert wrong.status == 2 and wrong.err.splitlines()[-1].lstrip(" ^").startswith(
        f"error: 0x10 is no semaphore of a USDT probe at {site['offset']}: the kernel would add to what lies there"
    )


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_usdt_shows_the_arguments_that_the_note_states(app: Path, backend: str) -> None:
    done = tracer("usdt", "-q", "-i", "--backend", backend, f"p:{app}:fields:step", "arg1 > 1", "-c", f"{app} 4")
    assert (done.status, done.err) == (0, "")
    found = [line.partition("step: ")[2].partition(") ")[2] for line in done.out.decode().splitlines() if line]
    address = subprocess.run(["nm", app], capture_output=True, text=True, check=True).stdout
    text = int(re.search(r"(\w+) \w text\n", address)[1], 16)  # type: ignore[index]
    assert found == [f"arg1={n} arg2={text}" for n in (2, 3)]


def _in_file(app: Path, address: int) -> int:
    """The offset in the file of an address of its memory."""
    headers = subprocess.run(["readelf", "-lW", app], capture_output=True, text=True, check=True).stdout
    for words in (line.split() for line in headers.splitlines() if line.split()[:1] == ["LOAD"]):
        offset, begin, size = (int(words[at], 16) for at in (1, 2, 4))
        if begin <= address < begin + size:
            return offset + address - begin
    raise AssertionError(hex(address))
