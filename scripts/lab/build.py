"""The kernel that nobody ships: without bpf(), from Debian's source, `make tinyconfig` and nobpf.fragment."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from scripts.lab import LabError
from scripts.lab.cache import cache_directory, directory_of
from scripts.lab.children import run
from scripts.lab.fetch import Package, unpacked

FRAGMENT = Path(__file__).with_name("nobpf.fragment")
# Two thirds of the source are drivers and machines that ours has not. Their Kconfig files must be there.
_LEFT_OUT = (
    *(f"drivers/{name}/*/*.[ch]" for name in ("gpu", "net", "media", "staging", "scsi", "infiniband", "iio", "usb")),
    "sound/*.[ch]",
    "arch/[!x]*.[chS]",
    "arch/*.dts*",
    "Documentation/*/*",
    "tools/testing/*",
)
_LINE = re.compile(r"(?:# )?(CONFIG_\w+)(?:=.*| is not set)")


def built(source: Package) -> Path:
    """The directory with `vmlinux` and its `config`, built if it is not there yet: some minutes."""
    return directory_of(home_of(source), lambda directory: _build(source, directory))


def home_of(source: Package) -> str:
    """The name under which it is kept, made of the source and the configuration."""
    return f"nobpf_{source.version}_{hashlib.sha256(FRAGMENT.read_bytes()).hexdigest()[:12]}"


def _build(source: Package, directory: Path) -> None:
    archive = next((unpacked(source) / "usr" / "src").glob("linux-source-*.tar.xz"))
    # Objects and sources are of no use afterwards; what is built must not lie where the guest sees half of it.
    with tempfile.TemporaryDirectory(prefix=".build.", dir=cache_directory()) as place:
        tree = Path(place)
        print(f"vm: building the kernel without bpf() from {source.name} {source.version}", file=sys.stderr)
        start = time.monotonic()
        top = archive.name.removesuffix(".tar.xz")
        left_out = [f"--exclude={top}/{pattern}" for pattern in _LEFT_OUT]
        how = ("--strip-components=1", "--anchored", "--wildcards-match-slash")
        _run("tar", "xf", str(archive), "-C", place, *how, *left_out)
        _make(tree, "tinyconfig")
        with (tree / ".config").open("a") as config:
            config.write(FRAGMENT.read_text())  # of two lines about one option the later holds
        _make(tree, "olddefconfig")
        missing = not_taken(FRAGMENT.read_text(), (tree / ".config").read_text())
        if missing:
            raise LabError(f"{FRAGMENT.name}: the kernel's configuration did not take {', '.join(missing)}")
        _make(tree, f"-j{len(os.sched_getaffinity(0))}", "vmlinux")
        shutil.copy(tree / "vmlinux", directory / "vmlinux")
        shutil.copy(tree / ".config", directory / "config")
        print(f"vm: built in {time.monotonic() - start:.0f} s", file=sys.stderr)


def not_taken(fragment: str, config: str) -> list[str]:
    """The lines of the fragment that a configuration does not have; an option that does not exist there is not set."""
    there = set(config.splitlines())
    missing = []
    for line in fragment.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        is_off = line.startswith("#")
        if line not in there and not (is_off and not any(present.startswith(f"{match[1]}=") for present in there)):
            missing.append(line)
    return missing


def _make(tree: Path, *what: str) -> None:
    # The kernel's name of its builder would change the file from machine to machine.
    names = {"KBUILD_BUILD_USER": "tracer", "KBUILD_BUILD_HOST": "vm", "KBUILD_BUILD_TIMESTAMP": "1970-01-01"}
    _run("make", "-s", "-C", str(tree), *what, **names)


def _run(*command: str, **environment: str) -> None:
    with tempfile.TemporaryFile() as said:
        if run(command, said, None, LC_ALL="C.UTF-8", **environment):
            said.seek(0)
            raise LabError(f"{' '.join(command)} failed:\n{said.read().decode(errors='replace')[-3000:]}")
