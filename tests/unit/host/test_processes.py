from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tracer.errors import TracerError
from tracer.host import maps
from tracer.host.maps import Picture, mappings, root, within
from tracer.host.named import named

SLEEPS_C = '#include <unistd.h>\nint main(void) { write(1, "x", 1); for (;;) pause(); }\n'


@pytest.fixture
def sleeper(build: Build, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    path = tmp_path / "a sleeper"
    shutil.copy(build(SLEEPS_C, "-O1"), path)
    with subprocess.Popen([str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.read(1) == b"x"
        yield process
        process.kill()


def test_the_program_comes_first_then_its_libraries(sleeper: subprocess.Popen[bytes]) -> None:
    files = Picture(sleeper.pid).files
    assert files[0].path == os.readlink(f"/proc/{sleeper.pid}/exe")
    assert files[0].path.endswith("/a sleeper")
    assert sorted(os.path.basename(each.path).partition(".")[0] for each in files[1:]) == ["ld-linux-x86-64", "libc"]


def test_a_deleted_program_is_reached_through_map_files(sleeper: subprocess.Popen[bytes]) -> None:
    path = os.readlink(f"/proc/{sleeper.pid}/exe")
    content = Path(path).read_bytes()
    os.unlink(path)
    Path(path).write_bytes(b"another file of that name")
    assert [each.path for each in mappings(sleeper.pid) if each.executable and each.deleted] == [path]
    files = Picture(sleeper.pid).files
    (gone,) = [each for each in files if each.deleted]
    assert Path(gone.path).read_bytes() == content
    assert gone.name == path


def test_a_process_that_is_gone_is_said_to_be(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait()
    for look in (mappings, lambda pid: Picture(pid).files, root):
        with pytest.raises(TracerError) as caught:
            look(sleeper.pid)
        assert (caught.value.message, caught.value.hint) == (
            f"there is no process {sleeper.pid}",
            "it may have ended; `pgrep -a NAME` lists those that run",
        )


def test_a_zombie_runs_no_program(build: Build) -> None:
    process = subprocess.Popen(["/bin/true"])
    try:
        for _ in range(500):
            if not Path(f"/proc/{process.pid}/maps").read_text():
                break
            time.sleep(0.01)
        expected = f"process {process.pid} (true) runs no user program: it is a kernel thread, or has just ended"
        with pytest.raises(TracerError) as caught:
            _ = Picture(process.pid).files
        assert caught.value.message == expected
    finally:
        process.wait()


def test_paths_with_blanks_and_newlines_are_read_whole() -> None:
    line = "7f0000000000-7f0000001000 r-xp 00002000 08:01 42    /tmp/a b\\012c (deleted)\n"
    made = maps._mapping(line)
    assert made == maps.Mapping(0x7F0000000000, 0x7F0000001000, "r-xp", 0x2000, ("08:01", 42), "/tmp/a b\nc", True)
    assert maps._mapping("ffff-10000 r-xp 00000000 00:00 0  [vdso]\n") == maps.Mapping(
        0xFFFF, 0x10000, "r-xp", 0, None, "[vdso]", False
    )
    assert maps._mapping("") is None


def test_links_are_followed_inside_the_process_s_own_root(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/app-1.2").touch()
    (tmp_path / "usr/bin/app").symlink_to("/etc/alternatives/app")
    (tmp_path / "etc/alternatives").mkdir(parents=True)
    (tmp_path / "etc/alternatives/app").symlink_to("../../usr/bin/app-1.2")
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "loop").symlink_to("loop")
    assert within(str(tmp_path), "/bin/app") == f"{tmp_path}/usr/bin/app-1.2"
    assert within(str(tmp_path), "/../../bin/./app-1.2") == f"{tmp_path}/usr/bin/app-1.2"
    assert within(str(tmp_path), "/") == f"{tmp_path}/"
    assert within("", "/bin/app") == "/bin/app"
    with pytest.raises(TracerError) as caught:
        within(str(tmp_path), "/loop/x")
    assert caught.value.message == "/loop/x: too many levels of symbolic links"


def test_a_process_behind_chroot_is_seen_through_its_root(build: Build, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    static = build(SLEEPS_C, "-static", name="inner")
    jail = tmp_path / "jail"
    jail.mkdir()
    shutil.copy(static, jail / "inner")
    with subprocess.Popen(["chroot", str(jail), "/inner"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.read(1) == b"x"
            assert root(process.pid) == f"/proc/{process.pid}/root"
            (path,) = [each.path for each in Picture(process.pid).files]
            assert path == str(jail / "inner")
            assert within(root(process.pid), "/inner") == f"/proc/{process.pid}/root/inner"
            assert os.path.samefile(f"/proc/{process.pid}/root/inner", path)
        finally:
            process.kill()


def test_a_process_is_called_by_its_number_and_its_whole_name(tmp_path: Path) -> None:
    path = tmp_path / "a-name-that-is-long-for-the-kernel"
    shutil.copy("/bin/sleep", path)
    with subprocess.Popen([path, "9"]) as process:
        try:
            time.sleep(0.1)
            assert named(process.pid) == f"process {process.pid} (a-name-that-is-long-for-the-kernel)"
        finally:
            process.kill()
    assert named(process.pid) == f"process {process.pid}"


def test_who_may_not_read_a_memory_map_is_told_to_be_root_only_where_he_is_not() -> None:
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        with pytest.raises(TracerError, match=r"^process 1 \(.+\): tracer may not read its memory map$") as caught:
            mappings(1)
    finally:
        os.seteuid(user)
    assert caught.value.hint == "run tracer as root"
    try:
        mappings(1)  # as root in most places, but not in every container
    except TracerError as error:
        assert user == 0 or error.hint == "run tracer as root"
        assert user != 0 or error.hint == "it has more privileges, or a security module guards it"
