"""Packages come from where the host takes them: no file names a mirror, which is not reachable everywhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

# The name of a server (not www, wiki or bugs, which documentation may name) of whoever publishes packages.
MIRROR = re.compile(
    rb"\b(?:deb|ftp\d*|security|archive|snapshot|ports|mirrors?|registry|files|proxy|dl-cdn|static|index)\.(?:\w+\.)*"
    rb"(?:debian|ubuntu|fedoraproject|opensuse|alpinelinux|kernel|pypi|pythonhosted|npmjs|golang|crates|maven)\.\w+"
)


def named(text: bytes) -> list[str]:
    """The hosts of mirrors in a text."""
    return [match[0].decode() for match in MIRROR.finditer(text)]


def test_no_file_names_the_host_of_a_package_mirror() -> None:
    top = [path for path in ROOT.iterdir() if path.name == ".ci" or not path.name.startswith(".")]
    files = [path for each in top for path in (each, *each.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    assert len(files) > 500
    assert {str(path.relative_to(ROOT)): hosts for path in files if (hosts := named(path.read_bytes()))} == {}


def test_a_mirror_is_told_from_a_page() -> None:
    assert named(b"deb http://deb." + b"debian.org/x y main") == ["deb." + "debian.org"]
    assert named(b"see https://wiki.debian.org/X, https://www.kernel.org/doc and debian.sources") == []
