"""What `scripts/test` adds to pytest: files shared out among processes, and results that are kept as they come.

Loaded with `-p tests.streams.plugin`. A process takes one file after the other, of which none of its stream has begun:
its tests stay together and in their order, as fixtures of a module or of a session want it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

ALONE = ("clock", "leaks")
"""The marks of live tests that run while no other live test does."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("streams", "what scripts/test adds")
    group.addoption("--stream", type=Path, metavar="DIR", help="share the files with all that name this directory")
    group.addoption("--alone", choices=("only", "never"), help="live tests that run while no other live test does")
    group.addoption("--results", type=Path, metavar="FILE", help="where to write the results")


def is_alone(item: pytest.Item) -> bool:
    """Whether a live test must not run beside another."""
    return any(item.get_closest_marker(name) is not None for name in ALONE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files that hold nothing of what the stream runs, which takes a while for all: by the names of marks in
    their text, and since tests/live holds only what traces.
    """
    expression, alone = config.option.markexpr, config.getoption("--alone")
    if config.getoption("--results") is None or expression not in ("live", "not live"):
        return None
    is_live = collection_path.is_relative_to(config.rootpath / "tests" / "live")
    if expression == "not live":
        return is_live or None
    if collection_path.is_dir() or not collection_path.name.startswith("test_"):
        return None
    wanted = ALONE if alone == "only" else () if is_live else ("live",)
    text = _text(collection_path)
    return (bool(wanted) and not any(f"mark.{name}" in text for name in wanted)) or None


@cache
def _text(path: Path) -> str:
    return path.read_text()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Leaves out those that run alone, or all others, once the marks are all there. A live test outside of tests/live
    whose file does not name the mark would be in no stream: that is an error.
    """
    hidden = {item.path for item in items if item.get_closest_marker("live") and "mark.live" not in _text(item.path)}
    if config.getoption("--results") is not None and config.option.markexpr == "not live" and hidden:
        raise pytest.UsageError(f"live tests without mark.live in their text: {', '.join(map(str, sorted(hidden)))}")
    yield
    wanted = config.getoption("--alone")
    if wanted is not None:
        parts: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            parts[is_alone(item) == (wanted == "only")].append(item)
        config.hook.pytest_deselected(items=parts[False])
        items[:] = parts[True]


def shared(items: list[pytest.Item], directory: Path) -> Iterator[pytest.Item]:
    """The tests of the files that this process gets. Those that are allowed the longest test come first, then those of
    the most tests, so that none of them is left for the end.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    for path in sorted(files, key=lambda path: (-max(map(_limit, files[path])), -len(files[path]))):
        name = str(path.relative_to(items[0].config.rootpath)).replace("/", ".")
        with suppress(FileExistsError):
            os.close(os.open(directory / name, os.O_CREAT | os.O_EXCL, 0o600))
            yield from files[path]


def _limit(item: pytest.Item) -> float:
    """The seconds that a test is allowed by its own mark."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None else 0.0


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """pytest's own loop, over what this process gets."""
    directory = session.config.getoption("--stream")
    if directory is None or session.testsfailed or session.config.option.collectonly:
        return None  # pytest's own
    coming = shared(session.items, directory)
    item = next(coming, None)
    while item is not None:
        after = next(coming, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = after
    return True


def pytest_configure(config: pytest.Config) -> None:
    """Keeps results where that is wanted."""
    path = config.getoption("--results")
    if path is not None:
        config.pluginmanager.register(Results(path))


class Results:
    """Writes what came of each test, as a line of JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._took = 0.0
        self._cpu = _cpu()
        self._failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up set-up, call and tear-down, of which more than one can fail."""
        self._took += report.duration
        if report.failed:
            self._failed.append(report.longreprtext)
        if report.when == "teardown":
            cpu = _cpu()
            times = {"took_s": self._took, "cpu_s": cpu - self._cpu}
            line = {"test": report.nodeid, **times, "failed": self._failed}
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            self._took, self._cpu, self._failed = 0.0, cpu, []


def _cpu() -> float:
    """Seconds of ours, and of the children that have ended."""
    return sum(os.times()[:4])
