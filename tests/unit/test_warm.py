from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.harness.cli import ROOT, environment, start, tracer, tracing
from tests.harness.interpreter import Fork


@pytest.mark.parametrize(
    "words", [("--version",), ("-e", 'BEGIN { printf("%d\\n", $1); exit(3); }', "7"), ("run", "--nonsense"), ("-d",)]
)
def test_a_fork_answers_as_a_run_of_its_own(words: tuple[str, ...]) -> None:
    assert tracer(*words, warm=True) == tracer(*words, warm=True) == tracer(*words, warm=False)


def test_what_is_added_to_the_environment_is_of_that_run_alone() -> None:
    words = ("-q", "-e", "BEGIN { }", "-c", "printenv TRACER_TEST_WORD")
    found = [tracer(*words, env=env, warm=True).text for env in ({"TRACER_TEST_WORD": "glue"}, None)]
    assert found == ["glue\n", ""]


def test_a_fork_is_a_child_of_the_test_with_a_session_and_nothing_open_that_a_start_anew_has_not(
    tmp_path: Path,
) -> None:
    seen = []
    for warm in (True, False):
        with tracing(tmp_path, "-e", 'BEGIN { printf("on\\n"); } interval:s:60 { }', ready=None, warm=warm) as running:
            running.wait_for_output(b"on\n")
            process = psutil.Process(running.pid)
            assert (process.ppid(), os.getsid(running.pid)) == (os.getpid(), running.pid)
            assert isinstance(running.process, Fork) == warm
            seen.append(sorted(os.listdir(f"/proc/{running.pid}/fd")))
            assert running.stop().status == 0
    assert seen[0] == seen[1]


def test_what_a_fork_would_not_take_over_is_started_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(**given: object) -> type:
        with start(["--version"], warm=True, stdout=-3, **given) as process:  # type: ignore[arg-type]
            assert process.wait(60) == 0
        return type(process)

    assert kind() is Fork
    assert Fork not in (kind(prefix=["env"]), kind(cwd=tmp_path), kind(env={"GLIBC_TUNABLES": "glibc.malloc.check=0"}))
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (4096, hard))
    try:
        assert kind() is not Fork
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        assert kind() is not Fork
    finally:
        signal.signal(signal.SIGUSR1, before)
    monkeypatch.chdir(tmp_path)
    assert kind() is not Fork


def test_a_limit_that_a_session_raises_in_the_process_of_a_test_keeps_no_later_run_from_being_a_fork() -> None:
    script = (
        "import resource\n"
        "from tests.harness.cli import start\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (512, 4096))\n"
        "kinds = []\n"
        "for _ in range(2):\n"
        "    with start(['--version'], warm=True, stdout=-3) as process:\n"
        "        kinds.append(type(process).__name__)\n"
        "    from tracer.kernel.limits import raise_limits\n"
        "    raise_limits()\n"
        "print(kinds, resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.stdout == "['Fork', 'Fork'] (4096, 4096)\n", done.stderr


def test_by_itself_it_goes_by_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = []
    for test in ("tests/a.py::test_1 (call)", "tests/a.py::test_2 (call)", "tests/a.py::test_4 (call)", ""):
        monkeypatch.setenv("PYTEST_CURRENT_TEST", test)
        with start(["--version"], stdout=-3) as process:
            assert process.wait(60) == 0
        kinds.append(isinstance(process, Fork))
    assert kinds == [True, True, False, False]
