"""The compiling child and the cache of what it makes; neither needs root."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe
from tracer.backends.bcc import compiler
from tracer.backends.bcc.codegen.generate import generate
from tracer.backends.bcc.compiler import CompiledObject, compile_text
from tracer.backends.bcc.loader import link
from tracer.errors import TracerError

COUNT = generate(plan_of(probe("{ @ = count(); }"))).text


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of this test's own."""
    monkeypatch.setattr(compiler, "cache_directory", lambda: tmp_path / "tracer")
    (tmp_path / "tracer").mkdir(mode=0o700)
    return tmp_path / "tracer" / "bpf"


def no_child(source: bytes, binding: object) -> bytes:
    raise AssertionError("compiled again")


def test_the_same_text_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_text(COUNT, sleepable=True)
    assert list(first.functions) == ["probe_0"]
    monkeypatch.setattr(compiler, "_run", no_child)
    assert compile_text(COUNT, sleepable=True) == first
    with pytest.raises(AssertionError, match="compiled again"):
        compile_text(COUNT, sleepable=False)


def test_a_cached_object_that_was_changed_is_compiled_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_text(COUNT, sleepable=True)
    (file,) = cache.iterdir()
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    monkeypatch.setattr(compiler, "_run", no_child)
    with pytest.raises(AssertionError, match="compiled again"):
        compile_text(COUNT, sleepable=True)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_may_write_is_not_trusted(cache: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    compile_text(COUNT, sleepable=True)
    (file,) = cache.iterdir()
    os.chmod(file if what == "file" else cache, 0o777)
    monkeypatch.setattr(compiler, "_run", no_child)
    with pytest.raises(AssertionError, match="compiled again"):
        compile_text(COUNT, sleepable=True)


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
        ("os.kill(os.getpid(), signal.SIGKILL)", "the compiler was ended by SIGKILL", "memory may be short"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "the compiler was ended by SIGTERM", ""),
        ("time.sleep(60)", "the compiler has not finished within 0.3 seconds", "shorten the program"),
        ("os.write(int(sys.argv[3]), b'12345678')", "the compiler's answer is cut short", "is the disk"),
        ("sys.exit(1)", "the generated C does not compile", "this is a fault of tracer's"),
    ],
)
def test_how_the_compiling_child_may_end(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str, hint: str
) -> None:
    stub(tmp_path, monkeypatch, body)
    monkeypatch.setattr(compiler, "_TIMEOUT_S", 0.3 if "sleep" in body else 60)
    before = open_descriptors()
    with pytest.raises(TracerError) as raised:
        compile_text(COUNT, sleepable=True)
    assert raised.value.message == message
    assert (raised.value.hint or "").startswith(hint)
    assert open_descriptors() == before
    assert not cache.exists()


def test_a_compiler_that_cannot_be_started_is_no_traceback(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    before = open_descriptors()
    with pytest.raises(TracerError, match="cannot start the compiler: No such file or directory"):
        compile_text(COUNT, sleepable=True)
    assert open_descriptors() == before


def test_a_cache_made_under_a_lax_umask_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "cache_directory", lambda: tmp_path / "home" / ".cache" / "tracer")
    umask = os.umask(0)
    try:
        first = compile_text(COUNT, sleepable=True)
    finally:
        os.umask(umask)
    monkeypatch.setattr(compiler, "_run", no_child)
    assert compile_text(COUNT, sleepable=True) == first


@pytest.mark.parametrize("which", ["tracer", "tracer/bpf"])
def test_nothing_is_written_through_a_link(cache: Path, tmp_path: Path, which: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "bpf").mkdir(parents=True)
    if which == "tracer":
        cache.parent.rmdir()
    (tmp_path / which).symlink_to(elsewhere)
    compile_text(COUNT, sleepable=True)
    assert [path for path in elsewhere.rglob("*") if path.is_file()] == []


def test_the_cache_forgets_what_is_old(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_MOST_FILES", 4)
    monkeypatch.setattr(compiler, "_run", lambda source, binding: b"")
    for number in range(9):
        compile_text(f"/* {number} */", sleepable=True)
        assert len(list(cache.iterdir())) <= 4


def test_linking_replaces_map_constants_alone() -> None:
    compiled = compile_text(COUNT, sleepable=True, cached=False)
    code = compiled.functions["probe_0"]
    linked = link(code, {0: 70, 1: 71, 4: 74})
    changed = [at for at in range(0, len(code), 8) if code[at : at + 8] != linked[at : at + 8]]
    # Two instructions for each of the control block and the counter.
    assert len(changed) == 4
    assert linked.count(b"\x18\x11") == 2 and code.count(bytes.fromhex("cefaedfe")) == 2
    assert linked.count(bytes.fromhex("cefaedfe")) == 0
    assert isinstance(compiled, CompiledObject)
