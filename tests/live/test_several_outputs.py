"""Several consumers of one trace: every output is what a single one would be, and what a program does is done once."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import tracer as library
from tests.harness.cli import PATIENCE_S, tracer

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

Place = Callable[[str], Path]


def program(path: Path, mark: Path) -> str:
    """Everything that is put out, and effects; what `system` prints tells how often it has run."""
    return f"""usdt:{path}:ticker:tick {{
            printf("%d of %s\\n", arg0, comm); print((arg0, "x"));
            @ = count(); @h[arg0 % 2] = hist(arg0); @s[ustack(1)] = sum(arg0);
            system("echo >> {mark}; wc -l < {mark}"); cat("{mark}"); }}
        END {{ print(@h); errorf("over"); time("the end\\n"); }}"""


@pytest.mark.parametrize(("first", "second"), [("text", "json"), ("json", "text")])
def test_two_formats_at_once_are_those_of_single_runs(
    backend: str, place: Place, first: str, second: str, tmp_path: Path
) -> None:
    path, mark, out = place("ticker"), tmp_path / "mark", tmp_path / "out"
    files = [tmp_path / "second", tmp_path / "a.folded"]

    def run(*options: str) -> bytes:
        mark.unlink(missing_ok=True)
        words = ("-q", "--unsafe", "--backend", backend, "-o", str(out), *options, "-e", program(path, mark))
        done = tracer(*words, "-c", f"{path} 0.1 20")
        assert done.status == 0 and mark.read_text() == "\n" * 5, "each command has run once"
        assert done.err.count("ERROR: over") == ("text" in options or "folded" in options or len(options) > 2)
        return out.read_bytes()

    alone = {"text": run("-f", "text"), "json": run("-f", "json")}
    folded = run("--stacks", "folded")
    both = run("-f", first, "--also", f"{second}:{files[0]}", "--also", str(files[1]))
    assert (both, files[0].read_bytes(), files[1].read_bytes()) == (alone[first], alone[second], folded)
    assert b"3 of ticker" in both and b"the end" in both and b"main" in folded


def test_a_page_of_stacks_beside_text(backend: str, place: Place, tmp_path: Path) -> None:
    path, page = place("ticker"), tmp_path / "stacks.html"
    words = ("-q", "--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @[ustack(1)] = count(); }}")
    done = tracer(*words, "--also", str(page), "-c", f"{path} 0.05 10")
    assert done.status == 0 and done.printed.startswith(b"5\n") and b"main" in done.printed
    assert page.read_bytes().startswith(b"<!doctype html>") and b"main" in page.read_bytes()


class Kept(library.Consumer):
    def __init__(self) -> None:
        self.events: list[library.events.Event] = []
        self.notices: list[library.notices.Notice] = []
        self.last: Mapping[str, Any] = {}
        self.ends = 0

    def event(self, event: library.events.Event) -> None:
        self.events.append(event)

    def maps(self, maps: Mapping[str, Any]) -> None:
        self.last = maps

    def notice(self, notice: library.notices.Notice) -> None:
        self.notices.append(notice)

    def end(self) -> None:
        self.ends += 1


def test_a_program_gives_one_trace_to_its_objects_files_and_iterator(
    backend: str, place: Place, tmp_path: Path
) -> None:
    path, mark = place("ticker"), tmp_path / "mark"
    text, kept, json, plain = program(path, mark), Kept(), io.BytesIO(), io.BytesIO()
    trace = library.trace(text, command=f"{path} 0.1 20", backend=backend, config={"unsafe": True})
    for consumer in (kept, library.Writer(json), library.Writer(plain, "text")):
        trace.add(consumer)
    with trace:
        found = list(trace)
    assert mark.read_text() == "\n" * 5
    assert found == kept.events and len(found) == 5 * 4 + 3
    assert (kept.last, kept.ends, tuple(kept.notices)) == (trace.maps, 1, trace.notices)

    def printed(*options: str) -> bytes:
        mark.unlink()
        words = ("--backend", backend, "--unsafe", *options, "-o", str(tmp_path / "out"), "-e", text)
        assert tracer(*words, "-c", f"{path} 0.1 20").status == 0
        return (tmp_path / "out").read_bytes()

    assert (json.getvalue(), plain.getvalue()) == (printed("-f", "json"), printed())


def test_a_consumer_alone_keeps_nothing_for_an_iterator(
    backend: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracer.api.collector.MOST", 10)
    path, kept = place("ticker"), Kept()
    program = f'usdt:{path}:ticker:tick {{ printf("%d", arg0); }}'
    trace = library.trace(program, command=f"{path} 0.05 1", backend=backend)
    trace.add(kept, only=True)
    with trace:
        assert trace.wait(PATIENCE_S)
        assert list(trace) == []
    assert [event.values for event in kept.events if isinstance(event, library.events.Printf)] == [
        (number,) for number in range(50)
    ]


def test_what_a_consumer_raises_ends_the_trace_and_comes_to_who_entered_it(backend: str, place: Place) -> None:
    class Fails(library.Consumer):
        def event(self, event: library.events.Event) -> None:
            raise KeyError("mine")

    path = place("ticker")
    trace = library.trace(f'usdt:{path}:ticker:tick {{ printf("x"); }}', command=f"{path} 0.05 10", backend=backend)
    trace.add(Fails())
    with pytest.raises(KeyError, match="mine"), trace:
        trace.wait(PATIENCE_S)


def test_a_consumer_is_added_before_the_trace_runs_and_writes_a_format_that_there_is() -> None:
    with library.trace("BEGIN { exit(); }") as trace, pytest.raises(library.UsageError) as late:
        trace.add(Kept())
    assert (late.value.message, late.value.hint) == (
        "a trace that runs takes no consumer", "add it before the trace is entered",
    )  # fmt: skip
    with pytest.raises(library.UsageError) as unknown:
        library.Writer(io.BytesIO(), "xml")
    assert (unknown.value.message, unknown.value.hint) == ("no format xml", "there are text, json")
