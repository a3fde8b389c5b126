"""What may be written to tracefs, with a file in its place."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tracer.errors import TracerError
from tracer.kernel.tracefs import LONGEST_LINE, Said, Tracefs, said_about


@pytest.fixture
def tracefs(tmp_path: Path) -> Tracefs:
    (tmp_path / "uprobe_events").touch()
    return Tracefs(str(tmp_path))


def written(tracefs: Tracefs) -> str:
    return Path(tracefs.definitions_file).read_text()


@pytest.mark.parametrize(
    "line",
    [
        "p:g/e0 /bin/app:0x10",
        "r:tracer_1_01234567/e0_1 /bin/\u00fc:x(y):0x10 f0=$retval:u64 f1=$comm:string",
        "p:g/e0 /a:0x10(0x20) f0=+0(+8(%di)):s32 f1=-16(%bp):u8 f2=@+4096:u64 f3=\\5:u16",
    ],
)
def test_definitions_are_written_as_they_are(tracefs: Tracefs, line: str) -> None:
    tracefs.define(line, "it")
    assert written(tracefs) == line + "\n"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "p:g/e0 /bin/app:0x10\n-:other/e0",
        "p:g/e0 /bin/app:0x10 f0=%di:u64;x",
        "p:g/e0 /bin/my app:0x10",
        "p:g/e0 /bin/app#:0x10",
        "p:g/e0 bin/app:0x10",
        "p:g/e0 /bin/app:16",
        "p:g/e-0 /bin/app:0x10",
        f"p:{'g' * 64}/e0 /bin/app:0x10",
        "-:g/",
    ],
)
def test_nothing_else_is(tracefs: Tracefs, line: str) -> None:
    with pytest.raises(TracerError, match="the kernel refused a probe at it"):
        tracefs.define(line, "it")
    assert written(tracefs) == ""


def test_a_line_that_the_kernel_would_cut_is_not(tracefs: Tracefs) -> None:
    fits = f"p:g/e0 /{'a' * (LONGEST_LINE - len('p:g/e0 /:0x10'))}:0x10"
    with pytest.raises(TracerError, match="reads more values than fit into a definition of 4094 characters"):
        tracefs.define(f"{fits}0", "it")
    assert written(tracefs) == ""
    tracefs.define(fits, "it")
    assert written(tracefs) == fits + "\n"


def test_many_may_be_between_definition_and_use_but_only_one_may_be_alone(tracefs: Tracefs) -> None:
    first, second = tracefs.lock(alone=False, patience_s=0), tracefs.lock(alone=False, patience_s=0)
    assert first is not None and second is not None
    assert tracefs.lock(alone=True, patience_s=0) is None
    assert fcntl.fcntl(first, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    os.close(first)
    assert tracefs.lock(alone=True, patience_s=0.01) is None
    os.close(second)
    alone = tracefs.lock(alone=True, patience_s=0)
    assert alone is not None
    assert tracefs.lock(alone=False, patience_s=0) is None
    os.close(alone)


LINE = "p:g/e0 /bin/app:0x10 f0=%di:u64 f1=%si:u65"
# As Linux 6.1, 6.12 and 6.18 write it: an entry for each refused line of anybody, the oldest first.
LOG = """\
[   12.345678] trace_uprobe: error: Failed to find the given file
  Command: p:g/e0 /gone:0x10
                  ^
[   13.000001] trace_uprobe: error: Invalid register name
  Command: p:g/e0 /bin/app:0x10 f0=%di:u64 f1=%si:u65
                                       ^
[   14.000002] hist:syscalls:sys_enter: error: Couldn't find field
  Command: keys=nonsense
                ^
[12949.830462] trace_uprobe: error: Unknown type is specified
  Command: p:g/e0 /bin/app:0x10 f0=%di:u64 f1=%si:u65
                                                  ^
[12950.000003] trace_uprobe: error: Invalid register name
  Command: p:other/e0 /bin/app:0x10 f0=%nonsense:u64
                                        ^
"""


def test_the_last_entry_of_the_error_log_about_a_line_is_its_own() -> None:
    entry = "\n".join(LOG.splitlines()[9:12])
    assert said_about(LINE, LOG) == Said("Unknown type is specified", 1, entry)
    entry = "\n".join(LOG.splitlines()[:3])
    assert said_about("p:g/e0  /gone:0x10", LOG) == Said("Failed to find the given file", None, entry)
    assert said_about("p:g/e1 /gone:0x10", LOG) is None
    assert said_about(LINE, "") is None


@pytest.mark.parametrize(
    ("below", "fetch"),
    [
        ("  Command: p:g/e0 /bin/app:0x10 f0=%nonsense:u64 f12=$arg1:u64\n                                  ^\n", 0),
        ("  Command: p:g/e0 /bin/app:0x10 f0=%nonsense:u64 f12=$arg1:u64\n" + " " * 50 + "^\n", 12),
        ("  Command: p:g/e0 /bin/app:0x10 f0=%nonsense:u64 f12=$arg1:u64\n" + " " * 20 + "^\n", None),
        ("  Command: p:g/e0 /bin/app:0x10 f0=%nonsense:u64 f12=$arg1:u64\n" + " " * 200 + "^\n", None),
        ("  Command: p:g/e0 /bin/app:0x10 f0=%nonsense:u64 f12=$arg1:u64\n", None),
    ],
)
def test_the_caret_says_which_fetch_argument_it_is_about(below: str, fetch: int | None) -> None:
    said = said_about("p:g/e0 /bin/app:0x10 f0=%nonsense:u64 f12=$arg1:u64", f"[ 1.0] trace_uprobe: error: No\n{below}")
    assert said is not None and (said.reason, said.fetch) == ("No", fetch)


def test_a_key_that_is_listed_twice_is_the_one_that_was_set(tmp_path: Path) -> None:
    event = tmp_path / "events" / "g" / "e"
    event.mkdir(parents=True)
    (event / "trigger").write_text("hist:keys=f0,common_cpucommon_cpu:vals=hitcount:size=128 [active]\n")
    assert Tracefs(str(tmp_path)).triggers("g", "e") == ["hist:keys=f0,common_cpu:vals=hitcount:size=128"]
