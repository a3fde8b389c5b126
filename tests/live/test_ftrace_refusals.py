"""What the kernel refuses is said in its own words, under the text that it is about, and nothing is left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.kernel import nothing_left
from tests.live.ftrace import compiled, compiled_c, finish, gated, items
from tracer.backends import ALONE
from tracer.backends.ftrace.filters import Filter
from tracer.backends.ftrace.program import FtraceProgram, ProbeEvent
from tracer.backends.ftrace.session import FtraceSession
from tracer.errors import ProgramError
from tracer.kernel.uprobe_events import definitions
from tracer.kernel.uprobe_events.events import Fetch
from tracer.kinds.site import EVERY_PROCESS, FileIdentity
from tracer.resolve.files.identity import open_verified

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

SOURCE = r"""
#include <stdio.h>

PROBE long hit(long which, long value, const char *text) {
  __asm__ volatile("" ::"r"(text) : "memory");
  return which + value;
}

int main(void) {
  puts("ready");
  fflush(stdout);
  getchar();
  hit(1, 7, "some text");
  hit(2, 8, "some text");
  puts("done");
  fflush(stdout);
  while (getchar() != EOF) continue;
  return 0;
}
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_c(tmp_path_factory.mktemp("refusals") / "app", SOURCE)


def changed(program: FtraceProgram, *events: ProbeEvent) -> FtraceProgram:
    """The program with other events."""
    return replace(program, events=events, parts=events)


def refused(program: FtraceProgram) -> tuple[str, str, str | None, list[str]]:
    """The message, the marked text, the remedy, and the lines for -v."""
    with nothing_left(), pytest.raises(ProgramError) as raised, FtraceSession(program, EVERY_PROCESS, ALONE) as opened:
        opened.attach()
    assert raised.value.exit_code == 1
    (diagnostic,) = raised.value.diagnostics
    marked = raised.value.source.text[diagnostic.span.start : diagnostic.span.end]
    return diagnostic.message, marked, diagnostic.hint, (raised.value.detail or "").splitlines()


@pytest.mark.parametrize(
    ("number", "bad", "marked", "reason", "caret"),
    [
        (0, Fetch("%nonsense", "u64"), "arg0", "Invalid register name", "nonsense"),
        (1, Fetch("%si", "u65"), "arg1", "Unknown type is specified", "u65"),
        (2, Fetch("+nonsense(%dx)", "string"), "str(arg2 + 8)", "Invalid dereference offset", "nonsense"),
        (3, Fetch("%nonsense", "u64"), "str(arg2 + 8)", "Invalid register name", "nonsense"),
        (4, Fetch("$nonsense", "string"), None, None, "nonsense"),
    ],
)
def test_what_the_kernel_refuses_is_said_under_what_it_is_about_in_its_own_words(
    app: Path, number: int, bad: Fetch, marked: str | None, reason: str | None, caret: str
) -> None:
    program = compiled(
        f"uprobe:{app}:main {{ @a[arg0] = count(); }}\nuprobe:{app}:hit {{ @b[arg0, arg1, str(arg2 + 8)] = count(); }}"
    ).sampled("events are changed here")
    first, second = program.events
    (place,) = second.places
    fetches = list(place.fetches)
    fetches[number] = bad
    program = changed(program, first, replace(second, places=(replace(place, fetches=tuple(fetches)),)))
    message, found, hint, detail = refused(program)
    said = message.removeprefix(f"the kernel refused a probe at {app}:0x{place.file.offset:x}: ")
    # What the kernel says of a variable that it does not know is another thing from 6.9 on.
    assert said == reason or (reason is None and said != message)
    assert (found, hint) == (marked or f"uprobe:{app}:hit", "--backend bcc attaches in another way")
    # -v shows the kernel's own line, and its caret.
    assert detail[0].endswith(f" trace_uprobe: error: {said}")
    assert f" f{number}={bad.place}:{bad.type}" in detail[1]
    assert detail[1][detail[2].index("^") :].lstrip("$%+").startswith(caret)
    assert len(detail) == 3


def test_more_values_than_a_probe_can_have_are_refused_under_the_first_that_is_too_many(app: Path) -> None:
    body = " ".join(f"@[{number}] = *(uint8 *)(arg0 + {number});" for number in range(70))
    program = compiled(f"uprobe:{app}:hit {{ {body} }}")
    (event,) = program.events
    where = f"{app}:0x{event.places[0].file.offset:x}"
    # Each number has a guard, and the guards a sentinel.
    assert refused(program) == (
        f"the kernel takes 128 values of a probe, and at {where} 141 are to be read",
        "*(uint8 *)(arg0 + 64)",
        "read fewer there, or --backend bcc",
        [],
    )


def test_a_definition_that_is_too_long_is_refused_under_the_attach_point(app: Path) -> None:
    loads = "".join(
        f" @ = sum(*(uint64*)(*(uint64*)(arg0 + {number}) + 1000000000));" for number in range(10**9, 10**9 + 62)
    )
    message, marked, hint, _ = refused(compiled(f"uprobe:{app}:hit {{ @a = sum(arg1);{loads} }}"))
    assert marked == f"uprobe:{app}:hit"
    assert message.endswith(" reads more values than fit into a definition of 4094 characters")
    assert hint == "read fewer values there, or --backend bcc"


def test_a_file_that_vanishes_between_the_check_and_the_definition_is_said(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app"
    path.write_bytes(app.read_bytes())
    program = compiled(f"uprobe:{path}:hit {{ @ = count(); }}")

    def check_and_remove(name: str, expected: FileIdentity) -> int:
        descriptor = open_verified(name, expected)
        path.unlink()
        return descriptor

    monkeypatch.setattr(definitions, "open_verified", check_and_remove)
    message, marked, hint, detail = refused(program)
    where = f"{path}:0x{program.events[0].places[0].file.offset:x}"
    assert (message, marked, hint) == (
        f"the kernel refused a probe at {where}: Failed to find the given file",
        f"uprobe:{path}:hit",
        "does the file still exist?",
    )
    assert detail[1][detail[2].index("^") :] == where


def test_a_filter_that_the_kernel_refuses_is_left_to_user_space(app: Path) -> None:
    for body, sampled in (("@ = count();", False), ("@[arg1] = count();", True)):
        program = compiled(f"uprobe:{app}:hit /arg0 == 1/ {{ {body} }}")
        (event,) = program.events
        assert event.filter is not None and bool(event.counts) != sampled
        program = changed(program, replace(event, filter=Filter("nonsense == 1", event.filter.whole)))
        with FtraceSession(program, EVERY_PROCESS, ALONE) as opened:
            opened.attach()
            with gated(app) as (_, go):
                go()
            finish(opened)
            assert items(opened) == ({(7,): 1} if sampled else {(): 1})
