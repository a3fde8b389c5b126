from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tracer.errors import TracerError
from tracer.kinds.site import EVERY_PROCESS
from tracer.resolve.files.paths import find_files, matches_mapped


def hint(path: str) -> str | None:
    with pytest.raises(TracerError, match="no such file") as caught:
        find_files(path, EVERY_PROCESS)
    return caught.value.hint


def test_a_link_to_nothing_is_said_to_be_one_and_not_suggested_for_itself(tmp_path: Path) -> None:
    link = tmp_path / "app"
    link.symlink_to(tmp_path / "app-1.2")
    assert hint(str(link)) == f"it is a link to {tmp_path}/app-1.2, which is not there"
    (tmp_path / "app-1.3").touch()
    assert hint(str(tmp_path / "app-1.4")) == f"did you mean {tmp_path}/app-1.3?"


def test_the_program_of_a_process_that_has_ended_is_said_to_be_gone() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        expected = "the process has no program: it has ended, or is one of the kernel's"
        assert hint(f"/proc/{process.pid}/exe") == expected


@pytest.mark.parametrize(
    ("member", "reason", "remedy"),
    [
        (
            "lib/libapp.so",
            "probes in a library that is mapped out of an archive are not supported",
            "unpack it, and let the program load that",
        ),
        (
            "lib/packed.so",
            "it is compressed there, so no program runs it from the archive",
            "unpack it, and let the program load that",
        ),
        ("lib/libap.so", "the archive has no member 'lib/libap.so'", "did you mean lib/libapp.so?"),
    ],
)
def test_a_member_of_an_archive_is_refused_by_name(member: str, reason: str, remedy: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "app.apk", "w") as archive:
        archive.writestr("lib/libapp.so", b"\x7fELF")
        archive.writestr("lib/packed.so", b"\x7fELF", zipfile.ZIP_DEFLATED)
    path = f"{tmp_path}/app.apk!/{member}"
    with pytest.raises(TracerError) as caught:
        find_files(path, EVERY_PROCESS)
    assert (caught.value.message, caught.value.hint) == (f"{path}: {reason}", remedy)


def test_what_is_no_archive_has_no_members_and_a_folder_may_be_called_like_one(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    with pytest.raises(TracerError) as caught:
        find_files(f"{tmp_path}/text!/lib.so", EVERY_PROCESS)
    assert caught.value.message == f"{tmp_path}/text!/lib.so: text is no zip archive that can be read"
    (tmp_path / "wow!").mkdir()
    (tmp_path / "wow!" / "app").touch()
    assert [each.path for each in find_files(f"{tmp_path}/wow!/app", EVERY_PROCESS)] == [f"{tmp_path}/wow!/app"]


def test_a_name_that_goes_on_behind_the_word_comes_before_what_is_spelled_like_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("red", "whereis", "editres", "redis-server", "redis-cli", "predis-server"):
        (tmp_path / name).touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TracerError, match="neither a program in PATH nor a library") as caught:
        find_files("redis", EVERY_PROCESS)
    assert caught.value.hint == "did you mean redis-cli, redis-server or red?"


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*libssl*", "/usr/lib/libssl.so.3", True),
        ("*libssl*", "/opt/libssl/libcrypto.so.3", False),
        ("libssl.so.[13]", "/usr/lib/libssl.so.3", True),
        ("/usr/lib/*ssl*", "/usr/lib/libssl.so.3", True),
        ("/usr/lib/*ssl*", "/usr/lib/x/libssl.so.3", False),
        ("/usr/*/*ssl*", "/usr/lib/libssl.so.3", True),
        ("/usr/**/*ssl*", "/usr/lib/x/y/libssl.so.3", True),
        ("*", "/bin/sh", True),
        ("", "/bin/sh", True),
        (None, "/bin/sh", True),
    ],
)
def test_a_pattern_without_a_slash_is_for_the_name_of_a_mapped_file(
    pattern: str | None, path: str, matches: bool
) -> None:
    assert matches_mapped(pattern, path) is matches
