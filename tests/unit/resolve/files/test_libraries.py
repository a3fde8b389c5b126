from __future__ import annotations

import os
import random
import re
import struct
import subprocess
from pathlib import Path

import pytest

from tracer.kinds.arch import AARCH64, X86_64
from tracer.resolve.files.libraries import find_library, is_library_name


def cache(*entries: tuple[str, str, int, int], old: bool = False) -> bytes:
    """A loader's cache: name, path, flags, hardware capabilities."""
    strings, places = b"", []
    start = 48 + 24 * len(entries)
    for name, path, flags, capabilities in entries:
        places.append((flags, start + len(strings), start + len(strings) + len(name) + 1, 0, capabilities))
        strings += name.encode() + b"\0" + path.encode() + b"\0"
    header = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(entries), len(strings)) + bytes(20)
    made = header + b"".join(struct.pack("<iIIIQ", *place) for place in places) + strings
    return b"ld.so-1.7.0\0" + bytes(52) + made if old else made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    for path in (
        "opt/libfoo.so.2",
        "opt/libfoo.so.1",
        "opt/hw/libfoo.so.2",
        "opt/arm/libfoo.so.2",
        "usr/lib/libbar.so.3",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    return tmp_path


ENTRIES = [
    ("libfoo.so.2", "/opt/hw/libfoo.so.2", 0x0303, 1 << 62),
    ("libfoo.so.2", "/opt/arm/libfoo.so.2", 0x0A03, 0),
    ("libfoo.so.2", "/opt/libfoo.so.2", 0x0303, 0),
    ("libfoo.so.1", "/opt/libfoo.so.1", 0x0303, 0),
    ("libgone.so.1", "/opt/libgone.so.1", 0x0303, 0),
]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("libfoo.so.2", "/opt/libfoo.so.2"),
        ("libfoo.so.1", "/opt/libfoo.so.1"),
        ("libfoo.so", "/opt/libfoo.so.2"),
        ("libfoo", "/opt/libfoo.so.2"),
        ("foo", "/opt/libfoo.so.2"),
        ("libfo", None),
        ("fo.", None),
        ("libgone.so.1", None),
        ("libbar", "/usr/lib/libbar.so.3"),  # not in the cache: the default directories
        ("../opt/libfoo.so.2", None),
        ("", None),
    ],
)
def test_names_lead_to_files(root: Path, name: str, path: str | None, old: bool) -> None:
    (root / "etc/ld.so.cache").write_bytes(cache(*ENTRIES, old=old))
    assert find_library(name, X86_64, str(root)) == path


def test_each_architecture_has_its_own(root: Path) -> None:
    (root / "etc/ld.so.cache").write_bytes(cache(*ENTRIES))
    assert find_library("foo", AARCH64, str(root)) == "/opt/arm/libfoo.so.2"


def test_a_damaged_cache_is_no_cache(root: Path) -> None:
    good = cache(*ENTRIES)
    chance = random.Random(3)
    for _ in range(500):
        content = bytearray(good[: chance.choice([len(good), chance.randrange(len(good))])])
        for _ in range(chance.randrange(8)):
            if content:
                content[chance.randrange(len(content))] = chance.randrange(256)
        (root / "etc/ld.so.cache").write_bytes(content)
        found = find_library("foo", X86_64, str(root))
        assert found is None or os.path.exists(f"{root}{found}")


def test_agrees_with_ldconfig_on_every_library_of_this_machine() -> None:
    text = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    first: dict[str, str] = {}
    for name, path in re.findall(r"^\t(\S+) \(libc6,x86-64\) => (\S+)$", text, re.MULTILINE):
        first.setdefault(name, path)
    assert "libc.so.6" in first
    assert {name: find_library(name, X86_64) for name in first} == first


@pytest.mark.parametrize(
    ("name", "file", "fits"),
    [
        ("c", "libc.so.6", True),
        ("libc", "libc.so.6", True),
        ("libc", "libc-2.31.so", True),
        ("libc.so", "libc.so.6", True),
        ("libc", "libcrypt.so.1", False),
        ("c", "c", False),
        ("libssl.so.3", "libssl.so.1.1", False),
        (".*", "libc.so.6", False),
    ],
)
def test_a_name_fits_its_library_only(name: str, file: str, fits: bool) -> None:
    assert is_library_name(name, file) is fits
