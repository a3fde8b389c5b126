"""What is said of a process that did not load the C library that was named."""

from __future__ import annotations

import shutil

import pytest

from tests.targets.build import build
from tracer.kinds.site import FileSite
from tracer.resolve.binary import Binary
from tracer.silence.other_libc import other_libc

TRUE = shutil.which("true") or "/bin/true"
OWN = str(build("depot"))


def site(path: str, function: str = "puts") -> FileSite:
    return FileSite("uprobe", f"uprobe:{path}:{function}", function, (), 0, path, Binary(OWN).identity, 0x1000, 0x1000)


@pytest.mark.parametrize(
    ("loaded", "said"),
    [
        (("/lib/ld-musl-x86_64.so.1",), "its C library is {0}, and uprobe:{0}:puts probes that"),
        (("/lib32/libc.so.6",), "its C library is {0}, and uprobe:{0}:puts probes that"),
        (("/x/libc-2.31.so",), "its C library is {0}, and uprobe:{0}:puts probes that"),
        (("/x/libm.so.6", "/x/libc.so.6"), "its C library is {1}, and uprobe:{1}:puts probes that"),
        (("/x/libcrypt.so.1",), ""),
    ],
)
def test_the_library_that_it_has_is_named(loaded: tuple[str, ...], said: str) -> None:
    never = "true never loaded /lib/libc.so.6"
    found = other_libc("true", (OWN, *loaded), site("/lib/libc.so.6"))
    assert found == (f"{never}: {said.format(*loaded)}" if said else never)


def test_of_other_libraries_nothing_is_said() -> None:
    assert other_libc("true", (TRUE, "/lib/libc.so.6"), site("/lib/libcrypto.so.3")) is None
