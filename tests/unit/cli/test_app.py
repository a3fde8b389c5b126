"""Command lines that are wrong, help, version, and what is imported to say so."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracer import __version__
from tracer.cli.app import EXAMPLES, main
from tracer.cli.arguments import COMMANDS, MODULES
from tracer.kernel.disabled import is_disabled
from tracer.kinds.site import Target
from tracer.resolve.files.paths import find_files

ROOT = Path(__file__).parents[3]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(words)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def process(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracer", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(
    ("line", "status", "error"),
    [
        ("run", 2, "no program; give one with -e 'PROGRAM', or a file"),
        ("-e", 2, "option '-e' requires an argument; see tracer run --help"),
        ("-e x --bakend bcc", 2, "unknown option --bakend; did you mean --backend?"),
        ("-e x --dryrun", 2, "unknown option --dryrun; did you mean --dry-run?"),
        ("-e x --xyzzy", 2, "unknown option --xyzzy; see tracer run --help"),
        ("-x", 2, "unknown option -x; see tracer run --help"),
        ("list --jsn", 2, "unknown option --jsn; did you mean --json?"),
        (
            "-e x -d types", 2,
            "invalid value for '-d' / '--debug': 'types' is not one of 'ast', 'typed', 'steps', 'plan',"
            " 'program', 'bytecode'; bpftrace's types is typed here, its codegen program, its dis bytecode;"
            " one stage at a time",
        ),
        (
            "-l --backend bpf x", 2,
            "invalid value for '--backend': 'bpf' is not one of 'auto', 'bcc', 'ftrace'; see tracer list --help",
        ),
        ("-l no-such-file.bt", 2, "no such file: no-such-file.bt; a program is given with -e"),
        (
            "-l 'struct file'", 2,
            "struct file: types are not listed; tracer list -v 'uprobe:FILE:FUNCTION' shows those of args",
        ),
        (
            "-e x --probe-filter y", 2,
            "--probe-filter is not supported: all probes of a program are attached;"
            " leave out clauses, or write narrower attach points",
        ),
        ("info extra", 2, "got unexpected extra argument(s) (extra); see tracer info --help"),
        ("-e x -p 1 -c ls", 2, "-p and -c cannot be used together; -c already traces its process alone"),
        ("-e x -p 0^_^0", 1, "no process has the name 0^_^0; list processes with: ps -e"),
        ("-l -p -e x", 2, "-p -e: a number or a name is missing"),
        ("-e x -p 0", 2, "-p 0: a process number is positive"),
        ("-e x --also a.b", 2, "--also a.b: the ending tells no format; write it before: json:a.b or text:a.b"),
        ("-e x --also xml:a", 2, "--also xml:a: the ending tells no format; write it before: json:xml:a or text:xml:a"),
        ("-e x -o a --also text:./a", 2, "--also text:./a: another output goes there already; name a file for each"),
        ("-e x --also a.json --also json:a.json", 2,
         "--also json:a.json: another output goes there already; name a file for each"),
        ("flame --also a.json", 2, "--also needs a program; give one with -e 'PROGRAM'"),
        ("-e x -p -7", 2, "-p -7: a process number is positive"),
        ("-e x -p 1 -p 2,", 2, "-p 1,2,: a number or a name is missing"),
        (
            "-e x -p kthreadd", 1,
            "process 2 (kthreadd) is a thread of the kernel; only user programs have probes that can be traced",
        ),
        ("-e x --children", 2, "--children needs -p; without it every process is traced already"),
        ("-e x --children -c ls", 2, "--children needs -p; --follow traces what -c starts"),
        (
            "-e x --emit-elf y", 2,
            "--emit-elf is not supported: tracer hands its program to the kernel itself;"
            " -d program and -d bytecode print it",
        ),
        (
            "--mode format -e x", 2,
            "--mode is not supported: tracer has commands instead;"
            " --fmt formats a program, -d STAGE prints a stage of it",
        ),
        ("-e x -c ''", 2, "-c needs a command; for example -c 'sleep 1'"),
        ("-e x -c no-such-program", 1, "cannot run no-such-program: no such program"),
        ("-e x -p 4194305", 1, "no process 4194305; list processes with: ps -e"),
        ("-v list usdt:x", 2, "no such file: list; a command comes before its options: tracer list …"),
        ("lst", 2, "no such file: lst; did you mean the command list?"),
        ("no-such-file.bt", 2, "no such file: no-such-file.bt; a program is given with -e"),
        ("/etc", 1, "cannot read /etc: Is a directory"),
    ],
)
def test_a_wrong_line_is_one_line_of_error(
    capsys: pytest.CaptureFixture[str], line: str, status: int, error: str
) -> None:
    assert said(capsys, *shlex.split(line)) == (status, "", f"tracer: error: {error}\n")


def test_a_program_is_checked_without_being_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "one.bt"
    file.write_text("BEGIN {\n  exit();\n  print(1);\n}\n")
    warning = "^^^^^^^^ warning: this statement is never reached; what stands before it leaves the block"
    assert said(capsys, "check", str(file)) == (0, "", f"{file}:3:3\n  print(1);\n  {warning}\n")
    status, out, err = said(capsys, "check", "-e", "BEGIN { print(@x); }")
    assert (status, out) == (1, "") and "error: undefined map @x" in err


def test_warnings_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    program = "BEGIN { exit(); print(1); }"
    assert "warning" in said(capsys, "--dry-run", "-e", program)[2]
    assert said(capsys, "--dry-run", "--no-warnings", "-e", program)[2] == ""


@pytest.mark.skipif(not shutil.which("cc"), reason="headers are read by a C compiler")
def test_the_command_line_names_headers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "shop.h").write_text("#define CUPS 7\n")
    program = "BEGIN { print(CUPS + ENOENT); }"
    for words in (("check",), ("--dry-run",), ("-l",)):
        line = (*words, "-I", str(tmp_path), "--include", "shop.h", "--include", "errno.h", "-e", program)
        assert said(capsys, *line)[::2] == (0, ""), words
    assert said(capsys, "check", "--include", "no-such-header.h", "-e", program)[0] == 1


def test_the_probes_of_a_program_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = "interval:s:1 { } interval:s:1, interval:ms:5 { } END { }"
    file = tmp_path / "one.bt"
    file.write_text(program)
    for words in (("-l", "-e", program), ("-l", str(file))):
        assert said(capsys, *words) == (0, "interval:s:\ninterval:s:\ninterval:ms:\n", "")
        for backend in ("bcc", "ftrace"):
            assert said(capsys, "--backend", backend, *words) == said(capsys, *words)


def test_a_list_with_a_command_searches_what_that_would_run_and_starts_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    libc = find_files("libc", Target())[0].path
    command = f"/bin/sh -c 'touch {tmp_path}/started'"
    for words in (("uprobe:*:getaddrinfo",), ("-e", "uprobe::getaddrinfo { }")):
        assert said(capsys, "-l", "-c", command, *words) == (0, f"uprobe:{libc}:getaddrinfo\n", "")
    assert not (tmp_path / "started").exists()
    wanted = "tracer: error: -p and -c cannot be used together; -c already traces its process alone\n"
    assert said(capsys, "-l", "-c", "ls", "-p", "1", "usdt:*") == (2, "", wanted)


def test_the_probes_of_a_program_are_listed_as_bpftrace_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    libc = find_files("libc", Target())[0].path
    program = "u:libc:puts, uprobe:libc:getenv {} BEGIN {} u:libc:puts {} u:libc:nothing, u:libc:puts {}"
    nothing = f"{libc}: no function 'nothing'; `tracer list 'uprobe:{libc}:*'` shows its functions\n"
    status, out, err = said(capsys, "-l", "-e", program)
    names = ("puts", "getenv", "puts", "puts")
    assert (status, out) == (0, "".join(f"uprobe:{libc}:{name}\n" for name in names))
    assert err.endswith(f"^^^^^^^^^^^^^^ warning: left out: {nothing}")
    assert "left out" not in said(capsys, "-l", "--no-warnings", "-e", program)[2]
    status, out, err = said(capsys, "-l", "-e", "u:libc:puts {} u:libc:nothing {}")
    assert (status, out) == (2, "")
    assert err.endswith(f"^^^^^^^^^^^^^^ error: {nothing}")


def test_features_are_switched_off_as_in_bpftrace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACER_WITHOUT", "hist")
    line = ("--fmt", "-e", "BEGIN { }")
    assert said(capsys, "--no-feature", "kprobe_session,uprobe_multi", "--dwarf-pid", "1", *line)[0] == 0
    assert (is_disabled("uprobe_multi"), is_disabled("hist"), is_disabled("bpf")) == (True, True, False)
    status, out, err = said(capsys, "--no-feature", "uprobe_mutli", *line)
    assert (status, out) == (2, "")
    assert err.startswith("tracer: error: --no-feature: unknown uprobe_mutli; known are bpf, ring, ")


def test_names_the_choices_of_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, "-e", "x", "--backend", "ebpf")
    assert (status, out) == (2, "")
    assert "'auto', 'bcc', 'ftrace'" in err
    assert err.startswith("tracer: error: invalid value for '--backend'")
    assert err.count("\n") == 1


def test_a_file_that_is_no_text_is_an_error_with_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "noise.bt"
    file.write_bytes(b"BEGIN { }\n\xff\n")
    status, out, err = said(capsys, str(file))
    assert (status, out, err) == (2, "", f"tracer: error: {file}: line 2 is not UTF-8; is it a program's text?\n")


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_says_its_version(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert said(capsys, option) == (0, f"tracer {__version__}\n", "")


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help_names_every_command(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    status, out, err = said(capsys, *words)
    assert (status, err) == (0, "")
    assert all(f"\n  {name} " in out for name in COMMANDS)
    options = ("-e PROGRAM ", "-p PID ", "-c COMMAND ", "-f FORMAT ", "--backend ")
    assert all(f"\n    {option}" in out for option in options)
    assert out.endswith("  Examples:\n" + "".join(f"    {example}\n" for example in EXAMPLES))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_ends_in_its_example(capsys: pytest.CaptureFixture[str], name: str) -> None:
    from importlib import import_module

    example = import_module(f"tracer.cli.{MODULES.get(name, name)}").EXAMPLE
    status, out, err = said(capsys, name, "--help")
    assert (status, err) == (0, "")
    assert out.endswith(f"  Example:\n    {example}\n")


def test_the_version_needs_no_library_and_no_command_needs_rich() -> None:
    script = (
        "import json, sys\n"
        "from tracer.cli.app import main\n"
        "main(sys.argv[1:])\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})), file=sys.stderr)\n"
    )
    for words in (["--version"], ["--help"]):
        result = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=ROOT)
        modules = set(json.loads(result.stderr.splitlines()[-1]))
        assert not modules & {"rich", "pydantic", *(["typer"] if words == ["--version"] else [])}


@pytest.mark.parametrize("words", [("--help",), ("-l", "uprobe:libc:*"), ("-lv", "uprobe:libc:*")])
def test_a_reader_that_leaves_is_no_failure(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "tracer", *words], stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
    finally:
        os.close(write)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("words", [("-l", "uprobe:libc:malloc"), ("list", "-v", "uprobe:libc:malloc"), ("--help",)])
def test_without_a_stdout_what_is_shown_goes_nowhere(words: tuple[str, ...]) -> None:
    line = shlex.join([sys.executable, "-m", "tracer", *words])
    done = subprocess.run(f"{line} >&-", shell=True, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_one_line_of_error() -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tracer", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
    assert result.returncode == 1
    assert result.stderr == "tracer: error: No space left on device\n"


@pytest.mark.parametrize(
    ("message", "limited", "is_memory"),
    [
        ("error return without exception set", True, True),
        ("error return without exception set", False, None),
        ("<function Command.__call__ at 0x7fbd9476> returned NULL without setting an exception", True, True),
        ("initialization of _json failed without raising an exception", True, False),
        ("<class 'Event'> returned a result with an exception set", True, False),
    ],
)
def test_a_fault_of_pythons_without_a_reason_is_want_of_memory(
    message: str, limited: bool, is_memory: bool | None, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def fail(arguments: list[str]) -> int:
        raise SystemError(message)

    monkeypatch.setattr("tracer.cli.app._run", fail)
    monkeypatch.setattr("tracer.cli.app._memory_is_limited", lambda: limited)
    if is_memory is not False:
        hint = "ulimit -v or the control group's limit may be the reason"
        unknown = f"Python could not go on, for want of memory it seems: {message}"
        what = "there is not enough memory" if is_memory else unknown
        assert said(capsys) == (1, "", f"tracer: error: {what}; {hint}\n")
    else:
        with pytest.raises(SystemError, match=re.escape(message)):
            main([])


def test_ctrl_c_while_tracer_is_loaded_shows_no_traceback() -> None:
    code = """
import runpy, sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "tracer.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
runpy.run_module("tracer", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "tracer: interrupted\n")


@pytest.mark.parametrize("where", ["press()", "type('Class', (), {'name': Name()})"])
def test_ctrl_c_before_a_trace_begins_is_said_in_a_line(where: str) -> None:
    code = f"""
import os, runpy, signal, sys
press = lambda: os.kill(os.getpid(), signal.SIGINT)
class Name:
    def __set_name__(self, owner, name):
        press()
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "tracer.pipeline":
            {where}
sys.meta_path.insert(0, Interrupted())
sys.argv[1:] = ["check", "-e", "BEGIN {{ }}"]
runpy.run_module("tracer", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "tracer: interrupted\n")


def test_ctrl_c_while_python_starts_waits_until_tracer_takes_it() -> None:
    pressed = f"kill -INT $$; exec {shlex.quote(sys.executable)} -I -m tracer --version"
    done = subprocess.run(
        ["env", "--block-signal=INT", "sh", "-c", pressed], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "tracer: interrupted\n")


def test_ctrl_c_never_shows_a_traceback_of_pythons() -> None:
    command = [str(ROOT / "scripts" / "tracer"), "check", "-e", "BEGIN { }"]
    for each in range(20):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            time.sleep(each * 0.004)
            child.send_signal(signal.SIGINT)
            said = child.communicate(timeout=60)[1]
        assert said in ("", "tracer: interrupted\n")


def test_an_interrupt_that_comes_in_a_destructor_is_not_lost() -> None:
    program = """
import sys, time
from tracer.cli import app

class Dying:
    def __del__(self):
        app._interrupt(2, None)

sys.unraisablehook = app._ignored
Dying()
try:
    time.sleep(5)
except app.Interrupted:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_a_package_whose_files_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    """Python takes a folder for a package without files, and the first name that is wanted of it is missing."""
    (tmp_path / "shop").mkdir()
    code = "import sys; from tracer.cli import app; sys.excepthook = app._fault_of_ours; import shop; shop.Order"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    words = "cannot load the module shop: its files are not there, or cannot be looked at"
    assert (ran.stdout, ran.stderr) == ("", f"tracer: error: {words}\n")
