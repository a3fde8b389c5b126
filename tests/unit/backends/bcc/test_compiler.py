"""The compiling child and the cache of what it makes; neither needs root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe
from tracer.backends.bcc.attach.loader import link
from tracer.backends.bcc.codegen.generate import generate
from tracer.backends.bcc.compile import child, compiler
from tracer.backends.bcc.compile.compiler import bpf_programs, compile_text
from tracer.backends.bcc.compile.headers import with_headers
from tracer.backends.bcc.host.binding import Binding, find_binding
from tracer.backends.bcc.program import BccProgram
from tracer.errors import Interrupted, TracerError

ROOT = Path(__file__).parents[4]
COUNT = generate(plan_of(probe("{ @ = count(); }"))).text


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tracer" / "bpf"


def no_child(source: bytes, binding: object) -> bytes:
    raise AssertionError("compiled again")


@pytest.mark.parametrize(
    "body",
    [
        "{ @item = str(arg1); @last = arg0; @pair = (arg0, str(arg1)); }",
        '{ $s = str(arg1); $t = arg0 == 2 ? "second" : $s; printf("%s %s\\n", $s, $t); }',
    ],
)
def test_no_loop_over_a_string_counts_from_below_zero_since_newer_verifiers_refuse_that(cache: Path, body: str) -> None:
    listing = BccProgram(plan_of(probe(body))).bytecode()
    assert not re.findall(r"r\d = -\d+$", listing, re.MULTILINE)


def test_the_same_text_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_text(COUNT, sleepable=True)
    assert list(first) == ["probe_0"]
    monkeypatch.setattr(compiler, "_run", no_child)
    assert compile_text(COUNT, sleepable=True) == first
    with pytest.raises(AssertionError, match="compiled again"):
        compile_text(COUNT, sleepable=False)


def test_another_binding_headers_or_machine_is_another_program(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_text(COUNT, sleepable=True)
    monkeypatch.setattr(compiler, "_run", no_child)
    headers = tmp_path / "headers"
    shutil.copytree(bpf_programs(), headers)
    binding = find_binding()
    assert isinstance(binding, Binding)
    for name, other in {
        "find_binding": lambda: Binding(binding.folder, "0.0"),
        "library_path": lambda: "/usr/lib/libbcc.so.0.0.0",
        "bpf_programs": lambda: headers,
    }.items():
        with monkeypatch.context() as changed:
            changed.setattr(compiler, name, other)
            if name == "bpf_programs":
                compile_text(COUNT, sleepable=True)  # a copy is the same
                with (headers / "prelude.h").open("a") as file:
                    file.write("\n")
            with pytest.raises(AssertionError, match="compiled again"):
                compile_text(COUNT, sleepable=True)
    with monkeypatch.context() as changed:
        changed.setattr("platform.machine", lambda: "other")
        with pytest.raises(AssertionError, match="compiled again"):
            compile_text(COUNT, sleepable=True)
    compile_text(COUNT, sleepable=True)


@pytest.mark.parametrize(
    ("module", "attribute"),
    [(compiler, "_CHILD"), (compiler, "_HEADERS"), (compiler, "__file__"), (compiler, "_LOOPS")],
)
def test_another_way_to_compile_is_another_program(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, attribute: str
) -> None:
    compile_text(COUNT, sleepable=True)
    monkeypatch.setattr(compiler, "_run", no_child)
    changed = tmp_path / "changed.py"
    shutil.copyfile(getattr(module, attribute), changed)
    monkeypatch.setattr(module, attribute, type(getattr(module, attribute))(changed))
    compile_text(COUNT, sleepable=True)
    with changed.open("a") as file:
        file.write("\n")
    with pytest.raises(AssertionError, match="compiled again"):
        compile_text(COUNT, sleepable=True)


def test_another_build_of_libbcc_or_another_place_of_it_is_another_program(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libbcc.so.0"
    library.write_bytes(b"one")
    monkeypatch.setattr(compiler, "library_path", lambda: str(library))
    compile_text(COUNT, sleepable=True)
    monkeypatch.setattr(compiler, "_run", no_child)
    compile_text(COUNT, sleepable=True)
    with monkeypatch.context() as elsewhere, pytest.raises(AssertionError, match="compiled again"):
        elsewhere.setenv("LD_LIBRARY_PATH", str(tmp_path))
        compile_text(COUNT, sleepable=True)
    os.utime(library, (1, 1))
    with pytest.raises(AssertionError, match="compiled again"):
        compile_text(COUNT, sleepable=True)


@pytest.mark.parametrize("machine", ["arm64", "x86"])
def test_the_machine_to_compile_for_is_ours_whatever_the_caller_builds_for(
    cache: Path, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    text = generate(plan_of(probe("{ @[arg0] = count(); }"))).text
    plain = compile_text(text, sleepable=True, cached=False)
    monkeypatch.setenv("ARCH", machine)
    assert compile_text(text, sleepable=True, cached=False) == plain


def test_what_the_compiler_says_is_kept_for_the_detail(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TracerError) as raised:
        compile_text("int probe_0(void *ctx) { return nothing_like_it; }", sleepable=True)
    assert raised.value.message == "the generated C does not compile"
    assert "undeclared identifier 'nothing_like_it'" in (raised.value.detail or "")
    assert capfd.readouterr() == ("", "")


def test_a_compiler_that_aborts_takes_only_its_own_process_along(cache: Path) -> None:
    # LLVM 14 has no signed division for BPF and ends the process.
    text = "#include <uapi/linux/ptrace.h>\nint probe_0(struct pt_regs *ctx) { return (long)ctx->di / (long)ctx->si; }"
    try:
        compile_text(text, sleepable=True)
    except TracerError as error:
        assert error.message == "the generated C does not compile"


def stub(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Another program in the compiling child's place."""
    child = folder / "child.py"
    child.write_text(f"import os, signal, sys, time\n{body}\n")
    monkeypatch.setattr(compiler, "_CHILD", child)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "the compiler was ended by SIGKILL, most likely since memory is short", "group raised",
        ),
        ("os.kill(os.getpid(), signal.SIGTERM)", "the compiler was ended by SIGTERM", ""),
        ("time.sleep(60)", "the compiler has not finished within 0.3 seconds", "shorten the program"),
        ("os.write(int(sys.argv[3]), b'12345678')", "the compiler's answer is cut short", "is the disk"),
        ("os.write(int(sys.argv[3]), b'12')", "the compiler's answer is cut short", "is the disk"),
        (f"sys.exit({child.REFUSED})", "the generated C does not compile", "this is a bug in tracer"),
        ("sys.exit(1)", "the compiler failed: exit status 1", "is memory short"),
        ("os.abort()", "the compiler failed: signal 6, Aborted", "is memory short"),
        ("pass", "the compiler failed: it made nothing", "is memory short"),
    ],
)
def test_how_the_compiling_child_may_end(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str, hint: str
) -> None:
    stub(tmp_path, monkeypatch, body)
    monkeypatch.setattr("tracer.host.tables.cgroups.more_memory", lambda: "group raised")
    monkeypatch.setattr(compiler, "_TIMEOUT_S", 0.3 if "sleep" in body else 60)
    before = open_descriptors()
    with pytest.raises(TracerError) as raised:
        compile_text(COUNT, sleepable=True)
    assert raised.value.message == message
    assert (raised.value.hint or "").startswith(hint)
    assert open_descriptors() == before
    assert not cache.exists()


def test_ctrl_c_that_reaches_the_compiling_child_is_no_reason_for_another_backend(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(tmp_path, monkeypatch, "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)")
    with pytest.raises(Interrupted):
        compile_text(COUNT, sleepable=True)


def failure_under(setting: str, text: str, tmp_path: Path, *, limit: str = "unlimited", bytes: int = 1 << 20) -> str:
    """What compiling says, in a mount namespace with `bytes` of disk for temporary files, after `setting` (shell)."""
    script = """
import sys
from tracer.backends.bcc.compile.compiler import compile_text
from tracer.backends.bcc.compile.headers import with_headers
from tracer.errors import TracerError
try:
    print(compile_text(sys.argv[1], sleepable=True, cached=False))
except TracerError as error:
    print(f"{error.message}; {error.hint}")
"""
    disk = tmp_path / "disk"
    disk.mkdir()
    shell = f"mount -t tmpfs -o size={bytes} none {disk} && {setting} && exec {sys.executable} -c \"$0\" \"$1\""
    limited = ["prlimit", f"--as={limit}", "unshare", "-m", "sh", "-c", shell, script, text]
    environment = {**os.environ, "TMPDIR": str(disk)}
    done = subprocess.run(limited, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.replace(str(disk), "DISK").rstrip()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's")
@pytest.mark.parametrize(
    ("comment", "said"),
    [
        (0, "the compiler cannot write what it made in DISK"),
        (100_000, "cannot write the compiler's files in DISK: No space left on device"),
    ],
)
def test_a_full_disk_is_no_fault_of_the_program(tmp_path: Path, comment: int, said: str) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    room = (len(with_headers(COUNT, bpf_programs())) + 200) // page + 1  # for what clang reads, to the page
    text = f"{COUNT}//{'x' * comment}\n"
    fill = f"head -c {page} /dev/zero > $TMPDIR/fill"
    assert failure_under(fill, text, tmp_path, bytes=page * (room + 1)) == (
        f"{said}; make room there, or name another directory in TMPDIR"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's")
def test_little_memory_is_no_fault_of_the_program(tmp_path: Path) -> None:
    said = failure_under("true", COUNT, tmp_path, limit=str(100_000 << 10))
    assert said == (
        "the compiler failed: exit status 1; is memory short (ulimit -v, control group), or DISK full?"
        " -v shows what the compiler says"
    )


def test_a_compiler_that_cannot_be_started_is_no_traceback(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    before = open_descriptors()
    with pytest.raises(TracerError, match="cannot start the compiler: No such file or directory"):
        compile_text(COUNT, sleepable=True)
    assert open_descriptors() == before


def test_a_cache_made_under_a_lax_umask_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    umask = os.umask(0)
    try:
        first = compile_text(COUNT, sleepable=True)
    finally:
        os.umask(umask)
    monkeypatch.setattr(compiler, "_run", no_child)
    assert compile_text(COUNT, sleepable=True) == first


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's")
def test_the_compiling_child_alone_sees_no_kernel_symbols() -> None:
    def mounts() -> str:
        return Path("/proc/self/mountinfo").read_text()

    def symbols() -> bool:
        with open("/proc/kallsyms") as file:
            return bool(file.read(1))

    before = mounts()
    assert symbols()
    forked = os.fork()
    if forked == 0:
        child.hide_kernel_symbols()
        os._exit(2 if symbols() else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert symbols() and mounts() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's")
def test_a_mount_that_others_take_away_is_not_held_by_the_compiling_child(tmp_path: Path) -> None:
    script = f"""
import os
from tracer.backends.bcc.compile.child import hide_kernel_symbols
(hidden, say_hidden), (gone, say_gone) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    hide_kernel_symbols()
    os.write(say_hidden, b".")
    os.read(gone, 1)
    with open("/proc/self/mountinfo") as file:
        os._exit(" {tmp_path} " in file.read())
os.read(hidden, 1)
assert os.system("umount {tmp_path}") == 0
os.write(say_gone, b".")
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    mount = f'mount -t tmpfs none {tmp_path} && mount --make-rshared / && exec {sys.executable} -c "$0"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", mount, script], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a capability to drop")
def test_what_is_compiled_does_not_depend_on_seeing_them(cache: Path) -> None:
    script = f"""
from tracer.backends.bcc.compile.compiler import compile_text
from tracer.backends.bcc.compile.headers import with_headers
print(compile_text({COUNT!r}, sleepable=True, cached=False))
"""
    bare = [sys.executable, "-c", script]
    dropped = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", *bare]
    said = [subprocess.run(each, capture_output=True, check=True, cwd=ROOT).stdout for each in (bare, dropped)]
    assert said[0] == said[1] != b""


def test_linking_replaces_the_constants_of_maps_and_of_the_attach_point_alone() -> None:
    compiled = compile_text(COUNT.replace("enter_uncounted()", "enter()"), sleepable=True, cached=False)
    code = compiled["probe_0"]
    linked = link(code, {0: 70, 1: 71, 4: 74, 1002: 72}, point=5)
    control, counter, hits = (b"\0\0" + number.to_bytes(4, "little") for number in (70, 74, 72))
    changed = [at for at in range(0, len(code), 8) if code[at : at + 8] != linked[at : at + 8]]
    # Two places for each of the control block's address, the descriptors of counter and hits, and the point's number.
    assert len(changed) == 8
    assert linked.count(b"\x18\x21" + control) == 1 and linked.count(b"\x18\x11" + counter) == 1
    assert linked.count(b"\x18\x11" + hits) == 1
    for tag, times in (("cbfaedfe", 1), ("cefaedfe", 2), ("ccfaedfe", 1)):
        assert code.count(bytes.fromhex(tag)) == times and linked.count(bytes.fromhex(tag)) == 0
