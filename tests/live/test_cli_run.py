"""`tracer run` as users type it: whom it traces, when it ends, what it says and where."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE, ROOT, environment, target, tracer, tracing
from tests.live.ftrace import compiled_c
from tests.live.nobody import nobody, public_copy
from tests.targets.build import build

TICKS = 'interval:ms:20 { @ticks = count(); printf("tick\\n"); }'


def test_a_program_that_traces_nothing_runs_as_anybody() -> None:
    done = tracer("-e", 'BEGIN { printf("%d\\n", 6 * 7); exit(); }', prefix=nobody())
    assert (done.status, done.out) == (0, b"42\n")


def test_the_program_comes_from_a_file_with_its_arguments(tmp_path: Path) -> None:
    file = tmp_path / "sum.bt"
    file.write_text('BEGIN { printf("%d %s\\n", $1 + 1, str($2)); exit(); }\n')
    done = tracer(str(file), "41", "é", "-q")
    assert (done.status, done.out, done.err) == (0, "42 é\n".encode(), "")


def test_the_program_comes_from_stdin() -> None:
    done = tracer("-q", "-", "7", stdin=b'BEGIN { printf("%d\\n", $1); exit(); }')
    assert (done.status, done.out, done.err) == (0, b"7\n", "")


def test_the_exit_status_is_what_the_program_says() -> None:
    assert tracer("-q", "-e", "BEGIN { exit(7); }").status == 7


def test_faults_stand_under_the_users_text_and_end_in_status_2(tmp_path: Path) -> None:
    done = tracer("-e", "BEGIN { @ = cout(); }")
    assert done.status == 2
    assert done.out == b""
    first, second = done.err.splitlines()
    assert first == "BEGIN { @ = cout(); }"
    assert second.startswith("            ^^^^ error: unknown function")
    assert second.endswith("did you mean count?")
    file = tmp_path / "wrong.bt"
    file.write_text("BEGIN {\n\t@ = cout();\n}\n")
    assert tracer(str(file)).err.splitlines()[:2] == [f"{file}:2:6", "        @ = cout();"]


def test_quiet_says_nothing_and_otherwise_the_number_of_probes_is_said() -> None:
    assert tracer("-q", "-e", "BEGIN { exit(); }").err == ""
    assert tracer("-e", "BEGIN { } interval:ms:1 { exit(); }").err == "Attached 2 probes\n"


def test_results_go_to_the_file_and_nothing_to_stdout(tmp_path: Path) -> None:
    file = tmp_path / "out"
    done = tracer("-q", "-o", str(file), "-e", 'BEGIN { printf("x\\n"); exit(); }')
    assert (done.status, done.out, file.read_bytes()) == (0, b"", b"x\n\n\n")
    done = tracer("-o", str(tmp_path / "no" / "out"), "-e", "BEGIN { exit(); }")
    assert (done.status, done.err) == (1, f"tracer: error: cannot write {tmp_path}/no/out: No such file or directory\n")


def test_begin_and_end_alone_end_by_themselves(tmp_path: Path) -> None:
    done = tracer("-e", 'BEGIN { @x = 1; } END { printf("%d\\n", @x); }')
    assert (done.status, done.text, done.err) == (0, "1\n@x: 1\n", "Attached 2 probes\n")
    # What -c starts is waited for all the same.
    ran = tmp_path / "ran"
    done = tracer("-q", "-e", "END { @x = 1; }", "-c", f"/bin/sh -c 'sleep 0.3; echo > {ran}'")
    assert (done.status, done.text, ran.exists()) == (0, "@x: 1\n", True)


def test_json_is_one_object_a_line() -> None:
    command = "-f", "json", "-e", 'BEGIN { printf("é\\n"); @x = 1; exit(); }'
    lines = [json.loads(line) for line in tracer(*command).text.splitlines()]
    assert [json.loads(line) for line in tracer("-q", *command).text.splitlines()] == lines[1:]
    assert lines == [
        {"type": "attached_probes", "count": 1, "data": {"probes": 1}},
        {"type": "printf", "data": "é\n"},
        {"type": "map", "data": {"@x": 1}},
    ]


def test_json_says_that_probes_are_attached_once_they_are(backend: str, tmp_path: Path, clean: None) -> None:
    """Who waits for that line, and for no word on stderr, loses no hit."""
    names = range(400)
    source = "".join(f'void PROBE each_{number}(void) {{ __asm__ volatile(""); }}\n' for number in names)
    calls = " ".join(f"each_{number}();" for number in names)
    path = compiled_c(tmp_path / "many", f"{source} int main(void) {{ {calls} return 0; }}")
    program = f'BEGIN {{ printf("begun\\n"); }} uprobe:{path}:each_* {{ @ = count(); }}'
    with tracing(tmp_path, "-f", "json", "--backend", backend, "-e", program, ready=None) as running:
        running.wait_for_output(b"attached_probes")
        subprocess.run([path], check=True)
        running.signal(signal.SIGINT)
        lines = [json.loads(line) for line in running.wait().text.splitlines()]
    assert lines == [
        {"type": "attached_probes", "count": 401, "data": {"probes": 401}},
        {"type": "printf", "data": "begun\n"},
        {"type": "map", "data": {"@": 400}},
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_trace_in_order(tmp_path: Path, number: int) -> None:
    program = TICKS + ' END { printf("end\\n"); }'
    with tracing(tmp_path, "-e", program) as running:
        running.wait_for_output(b"tick\n")
        running.signal(number)
        done = running.wait()
    assert done.status == 0
    assert b"tick\nend\n" in done.out
    assert b"@ticks: " in done.out


def test_sigusr1_prints_the_maps_and_goes_on(tmp_path: Path) -> None:
    with tracing(tmp_path, "-e", TICKS) as running:
        running.wait_for_output(b"tick\n")
        running.signal(signal.SIGUSR1)
        running.wait_for_output(b"@ticks: ")
        assert running.process.poll() is None
        done = running.stop()
    assert done.out.count(b"@ticks: ") == 2


def test_ends_with_its_command_and_says_how_that_failed() -> None:
    done = tracer("-q", "-e", 'BEGIN { printf("%d\\n", cpid != 0); }', "-c", "sh -c 'exit 3'")
    assert (done.status, done.out, done.err) == (0, b"1\n", "tracer: sh ended with status 3\n")


def test_ends_its_command_when_tracing_ends_first() -> None:
    done = tracer("-q", "-e", 'BEGIN { printf("%d", cpid); } interval:ms:200 { exit(); }', "-c", "sleep 1000")
    assert (done.status, done.err) == (0, "")
    assert not Path(f"/proc/{int(done.out)}").exists()


def test_a_command_that_cannot_run_is_one_error(tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_bytes(b"\x7fELF" + bytes(100))
    noise.chmod(0o755)
    done = tracer("-q", "-e", "BEGIN { }", "-c", str(noise))
    assert done.status == 1
    assert done.err.startswith(f"tracer: error: cannot run {noise}: ")
    assert done.err.count("\n") == 1


def test_ends_with_the_process_it_watches(tmp_path: Path) -> None:
    with target("sleep", "1000") as sleeper, tracing(tmp_path, "-p", str(sleeper.pid), "-e", TICKS) as running:
        running.wait_for_output(b"tick\n")
        sleeper.kill()
        done = running.wait()
    assert done.status == 0
    assert b"@ticks: " in done.out


def test_a_reader_that_leaves_ends_the_trace_with_status_0() -> None:
    command = f"{sys.executable} -m tracer -e 'interval:ms:1 {{ printf(\"%d\\n\", 1); }}'; echo status $? >&2"
    words = ["bash", "-c", f"({command}) | head -n 3"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=20 * PATIENCE, env=environment(), cwd=ROOT)
    assert result.stdout == "1\n1\n1\n"
    assert result.stderr == "Attached 1 probe\nstatus 0\n"


@pytest.mark.parametrize("stage", ["ast", "typed", "steps", "plan", "program"])
def test_every_stage_prints_and_attaches_nothing(place: Callable[[str], Path], clean: None, stage: str) -> None:
    program = f"usdt:{place('depot')}:depot:parcel {{ @[str(arg1)] = count(); }}"
    done = tracer("-d", stage, "-e", program)
    assert (done.status, done.err) == (0, "")
    assert ("update @" if stage == "steps" else "count") in done.text


def test_the_bytecode_of_a_program_is_shown_and_ftrace_has_none(place: Callable[[str], Path], clean: None) -> None:
    program = f"usdt:{place('depot')}:depot:parcel {{ @[arg0 & 15] = count(); }}"
    done = tracer("-d", "bytecode", "-e", program)
    first, *lines = done.text.splitlines()
    assert (done.status, done.err) == (0, "")
    assert first == f"probe_0: {len(lines)} instructions" and lines[-1].endswith(": exit")
    assert sum("map @ ll" in line for line in lines) == sum("control block ll" in line for line in lines) == 1
    done = tracer("--backend", "ftrace", "-d", "bytecode", "-e", program)
    said = "tracer: error: ftrace runs no bytecode; -d program shows what it gets; --backend bcc has bytecode\n"
    assert (done.status, done.text, done.err) == (1, "", said)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody may enter: pytest's own are closed."""
    folder = Path(tempfile.mkdtemp(prefix="tracer-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_dry_run_needs_no_root_and_names_sites_backend_and_program(public: Path, clean: None, backend: str) -> None:
    path = public_copy(build("depot"), public)
    program = f"usdt:{path}:depot:parcel {{ @ = count(); }}"
    done = tracer("--dry-run", "--backend", backend, "-e", program, prefix=nobody())
    assert done.status == 0, done.err
    lines = done.text.splitlines()
    assert lines[0].startswith("sites: ")
    assert f"file {path}" in lines[1]
    assert "semaphore 0x" in lines[1]
    assert f"backend: {backend}, as --backend says" in lines
    assert "program:" in lines


def test_explains_why_nothing_was_hit(place: Callable[[str], Path], backend: str) -> None:
    path = place("depot")
    program = f"usdt:{path}:depot:parcel {{ @ = count(); }} interval:ms:100 {{ exit(); }}"
    done = tracer("--backend", backend, "-e", program)
    assert done.status == 0
    assert done.err.splitlines()[-1] == f"tracer: no probe was hit: no process that runs now has loaded {path}"
    # That it is quiet does not hide why there is no answer.
    quiet = tracer("-q", "--backend", backend, "-e", program)
    assert quiet.err == f"tracer: no probe was hit: no process that runs now has loaded {path}\n"


def test_counts_what_the_command_does_from_its_first_instruction(place: Callable[[str], Path], backend: str) -> None:
    path = place("depot")
    program = f"usdt:{path}:depot:parcel {{ @ = count(); }}"
    done = tracer("-q", "--backend", backend, "-e", program, "-c", f"{path} 100")
    assert (done.status, done.err) == (0, "")
    assert done.text.strip() == "@: 100"


@pytest.mark.parametrize("words", [("-d", "600ms"), ("--duration", "0.6"), ("-d0.6",)])
def test_a_duration_ends_a_trace_and_its_command(
    words: tuple[str, ...], backend: str, place: Callable[[str], Path]
) -> None:
    path = place("ticker")
    begun = time.monotonic()
    program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
    done = tracer(*words, "--backend", backend, "-e", program, "-c", f"{path} 600")
    assert time.monotonic() - begun >= 0.6
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert int(done.text.removeprefix("@: ")) > 0


@pytest.mark.parametrize("given", ["0", "5x", "1e9", "-1"])
def test_a_duration_is_a_length_of_time(given: str) -> None:
    done = tracer("--duration", given, "-e", "BEGIN { }")
    assert (done.status, done.err) == (
        2, f"tracer: error: --duration {given}: no length of time; 500ms, 30s, 5m and 1h are, and 5, in seconds\n"
    )  # fmt: skip
