"""How scripts/test shares the tests out, runs once more what failed, and what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import ROOT, environment, until
from tests.streams import __main__ as streams
from tests.streams.__main__ import Streams
from tests.streams.results import Result, Stream, files, passed, read, summary, to_repeat

CONFTEST = """
import pytest
def pytest_configure(config):
    for name in ("live", "clock", "leaks", "timeout"):
        config.addinivalue_line("markers", f"{name}: …")
@pytest.fixture(scope="module")
def log(request):
    with open(f"{request.config.rootpath}/log", "a") as file:
        yield lambda: print(request.node.path.stem, file=file, flush=True)
"""
TESTS = """
import pytest, time
@pytest.mark.parametrize("number", range({count}))
def test_one(number, log):
    log()
    time.sleep({takes})
"""


def command(place: Path, name: str, *words: str) -> list[str]:
    plugins = ("-p", "tests.streams.plugin", "-p", "no:cacheprovider", "--import-mode=importlib")
    return [sys.executable, "-m", "pytest", *plugins, "--rootdir", str(place), "--results", str(place / name), *words]


def ran(place: Path, name: str, *words: str) -> int:
    done = subprocess.run(command(place, name, *words), cwd=place, env=environment(), capture_output=True)
    return done.returncode


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the others' plugins are half of a start
    (tmp_path / "conftest.py").write_text(CONFTEST)
    return tmp_path


def test_two_processes_run_each_test_once_and_a_file_in_one_of_them(place: Path) -> None:
    (place / "stream").mkdir()
    for name, count in (("few", 2), ("most", 9), ("more", 5), ("none", 0)):
        (place / f"test_{name}.py").write_text(TESTS.format(count=count, takes=0.05))
    words = ("--stream", str(place / "stream"))
    with subprocess.Popen(command(place, "second", *words), cwd=place, env=environment(), stdout=-3) as second:
        assert ran(place, "first", *words) == 0
    assert second.returncode == 0
    by = [{result.test for result in read(place / name)} for name in ("first", "second")]
    assert len(by[0] | by[1]) == len(by[0]) + len(by[1]) == 2 + 9 + 5 + 1
    files = [{test.partition("::")[0] for test in tests} for tests in by]
    assert not files[0] & files[1]
    assert ran(place, "third", *words) == 0
    assert read(place / "third") == ()


def test_one_process_begins_with_the_longest_test_then_the_file_of_the_most_tests(place: Path) -> None:
    (place / "stream").mkdir()
    (place / "test_long.py").write_text(
        "import pytest\n@pytest.mark.timeout(900)\ndef test_one(log): log()\ndef test_two(log): log()"
    )
    for name, count in (("few", 2), ("most", 4), ("more", 3)):
        (place / f"test_{name}.py").write_text(TESTS.format(count=count, takes=0))
    assert ran(place, "first", "--stream", str(place / "stream")) == 0
    assert (place / "log").read_text().split() == (
        ["test_long"] * 2 + ["test_most"] * 4 + ["test_more"] * 3 + ["test_few"] * 2
    )


def test_a_file_that_cannot_be_collected_runs_nothing(place: Path) -> None:
    (place / "stream").mkdir()
    (place / "test_one.py").write_text("def test_one(): pass")
    (place / "test_two.py").write_text("import nothing_of_that_name")
    assert ran(place, "first", "--stream", str(place / "stream")) == 2
    assert read(place / "first") == ()


def test_who_looks_at_a_clock_or_may_leak_runs_alone(place: Path) -> None:
    (place / "test_one.py").write_text(
        "import pytest\n"
        "pytestmark = pytest.mark.live\n"
        "def test_a(): pass\n"
        "@pytest.mark.clock\n"
        "def test_b(): pass\n"
        "@pytest.mark.leaks('bpftrace')\n"
        "def test_c(): pass\n"
    )
    for which, wanted in (("never", ["a"]), ("only", ["b", "c"])):
        assert ran(place, which, "-m", "live", "--alone", which) == 0
        assert [result.test for result in read(place / which)] == [f"test_one.py::test_{name}" for name in wanted]


def test_no_file_is_read_that_holds_nothing_of_the_stream_and_none_is_overlooked(place: Path) -> None:
    folder = place / "tests" / "live"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text("import pytest\npytestmark = getattr(pytest.mark, 'live')\ndef test_a(): pass")
    (folder / "test_b.py").write_text(
        "import pytest\npytestmark = [pytest.mark.live, pytest.mark.clock]\ndef test_b(): pass"
    )
    (place / "test_c.py").write_text("import pytest\n@pytest.mark.live\ndef test_c(): pass\ndef test_d(): pass")
    (place / "test_e.py").write_text("def test_e(): pass")
    for name, words, wanted in (
        ("beside", ("-m", "live", "--alone=never"), "ca"),
        ("alone", ("-m", "live", "--alone=only"), "b"),
        ("others", ("-m", "not live"), "de"),
    ):
        assert ran(place, name, *words) == 0
        assert [result.test[-1] for result in read(place / name)] == list(wanted)
    (place / "test_f.py").write_text("import pytest\n@getattr(pytest.mark, 'live')\ndef test_f(): pass")
    assert ran(place, "others", "-m", "not live") == pytest.ExitCode.USAGE_ERROR


def test_a_test_that_fails_and_cannot_clean_up_has_two_reports(place: Path) -> None:
    (place / "test_one.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def tidy():\n"
        "    yield\n"
        "    assert 0, 'untidy'\n"
        "def test_a(tidy): assert 0, 'wrong'\n"
        "def test_b(): pass\n"
    )
    assert ran(place, "first") == 1
    wrong, right = read(place / "first")
    assert [text.rpartition("AssertionError: ")[2].split("\n")[0] for text in wrong.failed] == ["wrong", "untidy"]
    assert (right.test, right.failed) == ("test_one.py::test_b", ())


# --- what it comes to ------------------------------------------------------------------------------------------------

RIGHT = Result("tests/a.py::right", 1.0)


def wrong(number: int) -> Result:
    return Result(f"tests/a.py::wrong{number}", 2.0, (f"report {number}",))


def stream(*results: Result, status: int | None = None, name: str = "live-1") -> Stream:
    failed = any(result.failed for result in results)
    return Stream(name, int(failed) if status is None else status, results)


def test_what_failed_beside_other_work_and_passed_alone_is_forgiven_and_named_with_its_report() -> None:
    streams = [stream(RIGHT, wrong(1)), stream(wrong(2), name="live-2"), stream(RIGHT, wrong(3), name="others-1")]
    assert to_repeat(streams) == (wrong(1), wrong(2), wrong(3))
    alone = [wrong(number).test for number in (1, 2, 3)]
    assert passed(streams, alone)
    said = list(summary(streams, alone))
    assert said[-6:] == [
        line
        for number in (1, 2, 3)
        for line in (
            f"report {number}",
            f"failed beside other work, passed alone: tests/a.py::wrong{number}: each is a bug to mend",
        )
    ]


def test_one_that_fails_alone_too_fails() -> None:
    streams = [stream(wrong(1), wrong(2))]
    assert not passed(streams, [wrong(1).test])
    assert list(summary(streams, [wrong(1).test]))[-2:] == ["report 2", "FAILED tests/a.py::wrong2 (live-1)"]
    long = Result("tests/a.py::long", 1.0, ("\n".join(map(str, range(100))),))
    assert list(summary([stream(long)], []))[-2] == "\n".join(map(str, range(60, 100)))


def test_more_than_three_are_not_run_again_and_fail() -> None:
    streams = [stream(wrong(1), wrong(2)), stream(wrong(3), wrong(4))]
    assert to_repeat(streams) == ()
    assert not passed(streams, [])


@pytest.mark.parametrize(("results", "status"), [((RIGHT,), 1), ((RIGHT,), 2), ((), -11), ((RIGHT, wrong(1)), 2)])
def test_a_process_that_did_not_come_to_its_end_fails(results: tuple[Result, ...], status: int) -> None:
    streams = [stream(*results, status=status)]
    assert not passed(streams, [result.test for result in results])
    assert f"live-1: pytest ended with status {status}" in list(summary(streams, []))


def test_the_slowest_twenty_are_named_the_slowest_first() -> None:
    results = [Result(f"tests/a.py::test_{at}", float(at), (), 12.5) for at in range(50)]
    said = list(summary([stream(*results[::2]), stream(*results[1::2], name="others-1")], []))
    assert said[0] == "== slowest 20 of 50 tests"
    assert said[1:3] == [
        "   49.0 s,   12.5 s of CPU  tests/a.py::test_49 (others-1)",
        "   48.0 s,   12.5 s of CPU  tests/a.py::test_48 (live-1)",
    ]
    assert len(said) == 21


def test_the_ten_files_that_need_the_most_cpu_are_named_the_dearest_first() -> None:
    results = [Result(f"tests/{at % 12}.py::test[a::{at}]", 1.0, (), float(at)) for at in range(24)]
    said = list(files([stream(*results[:9]), stream(*results[9:], name="others-1")]))
    assert said[0] == "== dearest 10 of 12 files, by CPU"
    assert said[1:3] == ["   34.0 s of CPU  tests/11.py", "   32.0 s of CPU  tests/10.py"]
    assert len(said) == 11


def test_a_process_has_the_cpu_of_its_children_and_the_seconds_until_its_own_end(tmp_path: Path) -> None:
    here = Streams(tmp_path)
    burns = "import time\nwhile time.process_time() < 0.3: pass"
    burning = here.start("burns", ["sh", "-c", '"$0" "$@"; exit 3', sys.executable, "-c", burns])
    waits = here.start("waits", ["sleep", "0.2"])
    here.wait(burning, waits)
    took = waits.took_s
    assert (burning.process.returncode, waits.process.returncode) == (3, 0)
    assert burning.took_s >= 0.2 < took
    assert burning.cpu_s >= 0.3 > waits.cpu_s
    until(lambda: not waits.runs)
    assert waits.took_s == took
    first, *lines = here.costs()
    assert first == "== seconds of each process, and of CPU"
    last = max((burning, waits), key=lambda job: job.started + job.took_s)
    assert sorted(line.split()[-1] for line in lines) == ["burns", "waits"]
    assert lines[-1].endswith(f"{last.cpu_s:6.0f} s of CPU  {last.name}")


@pytest.mark.parametrize(("alone", "status"), [("passes", 0), ("fails", 1)])
def test_one_that_failed_is_run_once_more_when_all_else_has_ended(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], alone: str, status: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(streams, "ROOT", place)
    monkeypatch.setattr(streams, "LIVE", 1)  # each start of pytest takes half a second
    monkeypatch.setattr(streams, "TYPES", ("true",))
    monkeypatch.setattr(streams, "PYTEST", (*streams.PYTEST, "--import-mode=importlib", f"--rootdir={place}"))
    folder = place / "tests" / "live"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text(
        "import os, pytest\n"
        "pytestmark = pytest.mark.live\n"
        "def test_a(request):\n"
        "    path = f'{request.config.rootpath}/second'\n"
        f"    second = {alone == 'passes'} and os.path.exists(path)\n"
        "    open(path, 'w').close()\n"
        "    assert second, 'a race'\n"
    )
    (folder / "test_b.py").write_text(
        "import pytest\npytestmark = [pytest.mark.live, pytest.mark.clock]\ndef test_b(): pass"
    )
    (place / "test_c.py").write_text("def test_c(): pass")
    assert streams.run(machines=False) == status
    said = capfd.readouterr().out.splitlines()
    name = "tests/live/test_a.py::test_a"
    forgiven = f"failed beside other work, passed alone: {name}: each is a bug to mend"
    refused = [line for line in said if line.startswith(f"FAILED {name} (live-")]
    assert (said[-1] == forgiven, bool(refused)) == (status == 0, status == 1)
    assert "E       AssertionError: a race" in said[said.index("== slowest 20 of 3 tests") :] or status == 1
    assert [line.split(",")[0] for line in said if line.startswith("== once more")] == ["== once more 1"]


@pytest.mark.parametrize("wrong", ["nothing", "types", "live", "others", "machines"])
def test_each_part_fails_the_whole_and_types_at_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], wrong: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(streams, "ROOT", place)
    monkeypatch.setattr(streams, "LIVE", 1)  # each start of pytest takes half a second
    monkeypatch.setattr(streams, "TYPES", ("false" if wrong == "types" else "true",))
    monkeypatch.setattr(streams, "MACHINES", ("sh", "-c", f"echo machines; exit {int(wrong == 'machines')}"))
    monkeypatch.setattr(streams, "PYTEST", (*streams.PYTEST, "--import-mode=importlib", f"--rootdir={place}"))
    (place / "test_c.py").write_text(
        "import pytest\n"
        f"def test_c(): assert {wrong != 'others'}\n"
        f"@pytest.mark.live\ndef test_d(): assert {wrong != 'live'}\n"
        "@pytest.mark.live\n@pytest.mark.clock\ndef test_e(): pass\n"
    )
    assert streams.run(machines=True) == (wrong != "nothing")
    said = capfd.readouterr().out
    assert ("machines\n" in said) == ("== slowest 20 of 3 tests" in said) == (wrong != "types")


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_is_under_way_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    here = Streams(tmp_path)
    job = here.start("one", ["sh", "-c", "sleep 100 & echo $!; wait"])
    while not job.said.read_text().endswith("\n"):
        assert job.runs
    started = int(job.said.read_text())
    job.interrupt()
    job.end()
    assert not job.runs
    until(lambda: not is_alive(started))  # though a shell lets what it puts into the background ignore SIGINT


def test_the_whole_is_one_command_of_the_tree() -> None:
    assert "-m tests.streams" in (ROOT / "scripts" / "test").read_text()
