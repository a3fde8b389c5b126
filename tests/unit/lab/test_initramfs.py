from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.lab.initramfs import archive


def test_an_archive_holds_its_directories_and_files() -> None:
    content = archive(("bin",), {"init": b"#!/bin/sh\n", "bin/tool": b"abcde"})
    assert content.startswith(b"070701")
    assert len(content) % 4 == 0
    # name's length with its NUL, size, and the name and content padded to four bytes
    assert b"00000005" in content
    assert b"bin/tool\0\0" in content
    assert content.count(b"070701") == 4
    assert content.rstrip(b"\0").endswith(b"TRAILER!!!")


def test_cpio_reads_an_archive_back(tmp_path: Path) -> None:
    files = {"init": b"#!/bin/sh\n", "bin/tool": bytes(range(251))}
    subprocess.run(["cpio", "-i", "--quiet"], input=archive(("bin",), files), cwd=tmp_path, check=True)
    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == files
    assert (tmp_path / "init").stat().st_mode & 0o777 == 0o755
