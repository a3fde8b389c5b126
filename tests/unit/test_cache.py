"""What is kept is found again; what somebody else could have put there is not."""

from __future__ import annotations

import mmap
import os
import pwd
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tracer import cache

ROOT = Path(__file__).parents[2]
KEY = cache.key_of("a program", b"version 1")
DATA = bytes(range(256)) * 40
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache is for this test, and there is no other."""
    monkeypatch.setattr(pwd, "getpwuid", without_an_account)
    monkeypatch.setenv("HOME", "/proc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def kept(home: Path) -> Path:
    (file,) = (home / "tracer" / "bpf").iterdir()
    return file


def test_what_was_stored_is_loaded_under_its_key_and_kind_alone(home: Path) -> None:
    assert cache.load("bpf", KEY) is None
    cache.store("bpf", KEY, DATA)
    assert cache.load("bpf", KEY) == DATA
    assert cache.load("sites", KEY) is None
    assert cache.load("bpf", cache.key_of("a program", b"version 2")) is None
    for folder in (home / "tracer", home / "tracer" / "bpf"):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert kept(home).stat().st_mode & 0o777 == 0o600


def test_a_key_tells_its_parts_apart() -> None:
    assert len(set(map(cache.key_of, ("ab", "a", "abc", "ab"), ("c", "bc", "", "c\0")))) == 4
    assert cache.key_of("ab") == cache.key_of(b"ab")


def test_a_bit_that_changed_anywhere_makes_it_nothing(home: Path) -> None:
    cache.store("bpf", KEY, DATA[:64])
    file = kept(home)
    good = file.read_bytes()
    for at in range(len(good)):
        file.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        assert cache.load("bpf", KEY) is None, f"byte {at}"
    file.write_bytes(good)
    assert cache.load("bpf", KEY) == DATA[:64]


def test_a_file_that_was_cut_or_grew_is_nothing_and_is_replaced(home: Path) -> None:
    cache.store("bpf", KEY, DATA)
    file = kept(home)
    good = file.read_bytes()
    for content in (b"", good[:10], good[: len(good) // 2], good[:-1], good + b"x", b"\0" * len(good)):
        file.write_bytes(content)
        assert cache.load("bpf", KEY) is None
    cache.store("bpf", KEY, DATA)
    assert cache.load("bpf", KEY) == DATA


def test_a_whole_file_under_another_key_is_nothing(home: Path) -> None:
    other = cache.key_of("another program")
    cache.store("bpf", KEY, DATA)
    kept(home).rename(home / "tracer" / "bpf" / other)
    assert cache.load("bpf", other) is None


@pytest.mark.parametrize("what", ["", "tracer", "tracer/bpf", "file"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_not_believed(home: Path, what: str, mode: int) -> None:
    cache.store("bpf", KEY, DATA)
    path = kept(home) if what == "file" else home / what
    path.chmod(path.stat().st_mode | mode)
    assert cache.load("bpf", KEY) is None
    if what != "file":
        before = kept(home).stat().st_mtime_ns
        cache.store("bpf", KEY, b"other")
        assert kept(home).stat().st_mtime_ns == before


@needs_root
@pytest.mark.parametrize("what", ["", "tracer", "tracer/bpf", "file"])
def test_what_belongs_to_somebody_else_is_not_believed(home: Path, what: str) -> None:
    cache.store("bpf", KEY, DATA)
    os.chown(kept(home) if what == "file" else home / what, NOBODY, NOBODY)
    assert cache.load("bpf", KEY) is None


@pytest.mark.parametrize("what", ["tracer", "tracer/bpf", "file"])
def test_no_link_inside_the_cache_is_followed(home: Path, tmp_path_factory: pytest.TempPathFactory, what: str) -> None:
    cache.store("bpf", KEY, DATA)
    path = kept(home) if what == "file" else home / what
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "there"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert cache.load("bpf", KEY) is None
    before = {each: each.read_bytes() for each in [elsewhere, *elsewhere.rglob("*")] if each.is_file()}
    cache.store("bpf", cache.key_of("new"), b"new")
    cache.store("bpf", KEY, b"new")
    assert before == {each: each.read_bytes() for each in [elsewhere, *elsewhere.rglob("*")] if each.is_file()}


def test_a_link_to_a_home_is_followed_where_nobody_else_could_have_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link = tmp_path / "var" / "home", tmp_path / "home"
    real.mkdir(parents=True)
    for target in (str(real), "var/home", "./var/../var/home/"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        monkeypatch.setenv("XDG_CACHE_HOME", str(link))
        cache.store("bpf", KEY, DATA)
        assert cache.load("bpf", KEY) == DATA
        assert kept(real).exists()


@needs_root
def test_a_link_of_somebody_elses_is_not_followed_to_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", without_an_account)
    monkeypatch.setenv("HOME", "/proc")
    real, sticky = tmp_path / "real", tmp_path / "sticky"
    real.mkdir()
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "home").symlink_to(real)
    monkeypatch.setenv("XDG_CACHE_HOME", str(sticky / "home"))
    cache.store("bpf", KEY, DATA)
    assert cache.load("bpf", KEY) == DATA
    os.lchown(sticky / "home", NOBODY, NOBODY)
    assert cache.load("bpf", KEY) is None


def test_links_that_lead_in_a_circle_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    monkeypatch.setattr(pwd, "getpwuid", without_an_account)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "a"))
    cache.store("bpf", KEY, DATA)
    assert cache.load("bpf", KEY) is None


@needs_root
def test_under_sudo_it_is_roots_home_whatever_the_callers_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, caller = tmp_path / "root", tmp_path / "caller"
    for each in (root, caller, caller / ".cache"):
        each.mkdir()
    for each in (caller, caller / ".cache"):
        os.chown(each, NOBODY, NOBODY)
    (caller / "roots").mkdir()  # root's own directory, which the caller can replace
    monkeypatch.setattr(pwd, "getpwuid", lambda user: account(user, root))
    monkeypatch.setenv("HOME", str(caller))
    monkeypatch.setenv("SUDO_USER", "caller")
    for number, named in enumerate((str(caller / ".cache"), str(caller / "roots"), "relative", "", "/nonexistent")):
        monkeypatch.setenv("XDG_CACHE_HOME", named)
        key = cache.key_of(str(number))
        cache.store("bpf", key, DATA)
        assert cache.load("bpf", key) == DATA
        assert (root / ".cache" / "tracer" / "bpf" / key).exists()
    assert [each for each in caller.rglob("*") if each.is_file()] == []


def account(user: int, home: Path) -> pwd.struct_passwd:
    return pwd.struct_passwd(("someone", "x", user, user, "", str(home), "/bin/sh"))


def without_an_account(user: int) -> pwd.struct_passwd:
    raise KeyError(user)


def test_a_home_that_is_not_there_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda user: account(user, tmp_path / "absent"))
    cache.store("bpf", KEY, DATA)
    assert cache.load("bpf", KEY) is None
    assert list(tmp_path.iterdir()) == []


def test_a_home_in_which_nothing_can_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for place in ("/proc", "/proc/self/fd", "/dev/null", "/sys"):
        monkeypatch.setattr(pwd, "getpwuid", lambda user, place=place: account(user, Path(place)))
        cache.store("bpf", KEY, DATA)
        assert cache.load("bpf", KEY) is None


@needs_root
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    # A private mount of 64 kB, in a namespace of the child's own.
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from tracer import cache
os.environ["XDG_CACHE_HOME"] = {str(tmp_path)!r}
cache.store("bpf", {KEY!r}, b"small")
assert cache.load("bpf", {KEY!r}) == b"small"
cache.store("bpf", {KEY!r}, bytes(1 << 20))
assert cache.load("bpf", {KEY!r}) == b"small"
print(os.listdir({str(tmp_path / "tracer" / "bpf")!r}))
"""
    mount = f"mount -t tmpfs -o size=64k,mode=700 none {tmp_path} && exec {sys.executable} -c \"$0\""
    done = subprocess.run(["unshare", "-m", "sh", "-c", mount, script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"['{KEY}']\n", "")


def test_what_was_used_longest_ago_goes_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_FILES", 4)
    keys = [cache.key_of(str(number)) for number in range(5)]
    for age, key in enumerate(reversed(keys[:4])):
        cache.store("bpf", key, DATA)
        then = time.time() - 10_000 * (age + 1)
        os.utime(home / "tracer" / "bpf" / key, (then, then))
    assert cache.load("bpf", keys[0]) == DATA  # the oldest file, used again
    cache.store("bpf", keys[4], DATA)
    assert [cache.load("bpf", key) is not None for key in keys] == [True, False, False, False, True]


def test_what_cannot_be_removed_does_not_keep_the_rest(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_FILES", 4)
    cache.store("bpf", cache.key_of("first"), DATA)
    folder = home / "tracer" / "bpf"
    (folder / "somebody's").mkdir()
    os.utime(folder / "somebody's", (0, 0))
    for number in range(12):
        cache.store("bpf", cache.key_of(str(number)), DATA)
    assert len(os.listdir(folder)) <= 5


def test_a_little_memory_reads_a_little_file(home: Path) -> None:
    key = cache.key_of("little")
    cache.store("bpf", key, DATA)
    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (held + (8 << 20), before[1]))
    try:
        found = cache.load("bpf", key)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert found == DATA


def test_it_does_not_grow_beyond_its_bounds(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES", 5 * len(DATA))
    for number in range(20):
        cache.store("bpf", cache.key_of(str(number)), DATA)
        held = [each.stat().st_size for each in (home / "tracer" / "bpf").iterdir()]
        assert sum(held) <= 5 * len(DATA)
    assert cache.load("bpf", cache.key_of("19")) == DATA


def in_threads(*bodies: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []


def test_writers_and_readers_at_once_see_one_of_the_contents_whole(home: Path) -> None:
    contents = [bytes([number]) * 100_000 for number in range(4)]
    cache.store("bpf", KEY, contents[0])

    def write(content: bytes) -> None:
        for _ in range(50):
            cache.store("bpf", KEY, content)

    def read() -> None:
        for _ in range(200):
            assert cache.load("bpf", KEY) in contents

    in_threads(*(lambda content=content: write(content) for content in contents), read, read)
    assert [each.name for each in (home / "tracer" / "bpf").iterdir()] == [KEY]


def test_no_descriptor_stays_open(home: Path) -> None:
    cache.store("bpf", KEY, DATA)
    before = len(os.listdir("/proc/self/fd"))
    cache.load("bpf", KEY)
    cache.store("bpf", KEY, DATA)
    (home / "tracer" / "bpf").chmod(0o777)
    cache.load("bpf", KEY)
    cache.store("bpf", KEY, DATA)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_fifo_or_a_folder_in_the_place_of_a_file_is_nothing(home: Path) -> None:
    cache.store("bpf", KEY, DATA)
    file = kept(home)
    file.unlink()
    os.mkfifo(file)
    assert cache.load("bpf", KEY) is None
    file.unlink()
    file.mkdir()
    assert cache.load("bpf", KEY) is None
    cache.store("bpf", KEY, DATA)
    assert cache.load("bpf", KEY) is None
    assert [each.name for each in (home / "tracer" / "bpf").iterdir()] == [KEY]
