"""Debian's packages, by an apt of our own: its sources, lists and archives lie in the cache, the host's are left alone.

Archives, their keys, proxies and the like are the host's; the suites are ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.lab import NotAvailable
from scripts.lab.archives import sources
from scripts.lab.cache import cache_directory, directory_of, locked

_SUITES = ("bookworm", "bullseye", "sid", "bookworm-security", "bullseye-security")
_LISTS_ARE_GOOD_FOR_S = 24 * 3600


@dataclass(frozen=True)
class Package:
    """A package in one version."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}_{self.version}"


def newest(pattern: str, names: list[str]) -> str | None:
    """The name that matches the whole pattern with the largest number in it; a signed image before its twin."""
    candidates = [
        (int(match[1]) if match.re.groups else 0, -len(name), name)
        for name in names
        if (match := re.fullmatch(pattern, name))
    ]
    return max(candidates)[2] if candidates else None


def choose(pattern: str) -> Package:
    """The newest package that apt offers for a pattern. Raises `NotAvailable`."""
    _update(_LISTS_ARE_GOOD_FOR_S)
    name = newest(pattern, _ask("apt-cache", "pkgnames", "linux-").split())
    if name is None:
        raise NotAvailable(f"apt offers no package like {pattern}")
    match = re.search(r"^  Candidate: (\S+)$", _ask("apt-cache", "policy", name), re.MULTILINE)
    if match is None:
        raise NotAvailable(f"apt knows no version of {name}")
    return Package(name, match[1])


def unpacked(package: Package, parts: Sequence[str] = ()) -> Path:
    """The directory with the package's files, fetched if they are not there yet. Raises `NotAvailable`.

    `parts`: those that an image of the newest kernels consists of, each a package with another word for "image".
    """
    names = [package.name.replace("-image-", f"-{part}-") for part in parts] or [package.name]
    return directory_of(str(package), lambda directory: _fetch(names, package.version, directory))


def _fetch(names: Sequence[str], version: str, directory: Path) -> None:
    print(f"vm: fetching {', '.join(names)} {version}", file=sys.stderr)
    wanted = [f"{name}={version}" for name in names]
    try:
        _ask("apt-get", "download", "-q", *wanted, cwd=directory)
    except NotAvailable:
        _update(0)  # the files may have been replaced by newer ones
        _ask("apt-get", "download", "-q", *wanted, cwd=directory)
    for archive in directory.glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive, directory], check=True)
        archive.unlink()


def _update(good_for_s: float) -> None:
    """Fetches the lists where they are older than that; some, or old ones, will do where an archive does not answer."""
    stamp = cache_directory() / "apt" / "updated"
    text = sources(_SUITES)
    with locked("apt"):
        written = stamp.with_name("debian.sources")
        is_same = written.exists() and written.read_text() == text
        if is_same and stamp.exists() and time.time() - stamp.stat().st_mtime < good_for_s:
            return
        for name in ("lists/partial", "archives/partial"):
            (stamp.parent / name).mkdir(parents=True, exist_ok=True)
        written.write_text(text)
        try:
            _ask("apt-get", "update", "-q", "--error-on=any")
        except NotAvailable as error:
            if not any((stamp.parent / "lists").glob("*_Packages*")):
                raise
            print(f"vm: going on with the package lists that are here: {error}", file=sys.stderr)
        stamp.touch()


def _ask(*command: str, cwd: Path | None = None) -> str:
    home = cache_directory() / "apt"
    options = {
        "Dir::Etc::SourceList": home / "debian.sources",
        "Dir::Etc::SourceParts": "-",
        "Dir::Etc::Preferences": "-",
        "Dir::Etc::PreferencesParts": "-",
        "Dir::State::Lists": home / "lists",
        "Dir::State::Status": "/dev/null",
        "Dir::Cache": home,
        # Images of containers switch them off, and each question would parse all lists.
        "Dir::Cache::pkgcache": "pkgcache.bin",
        "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
        "APT::Architecture": "amd64",
        # Our directories need not be open to apt's own user.
        "APT::Sandbox::User": "root",
    }
    words = [command[0], *(word for key, value in options.items() for word in ("-o", f"{key}={value}")), *command[1:]]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=environment, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise NotAvailable(f"{command[0]}: {error.strerror}; kernels are fetched from Debian by apt") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E:")] or done.stderr.splitlines()
        raise NotAvailable(f"{' '.join(command[:2])}: {lines[0] if lines else f'status {done.returncode}'}")
    return done.stdout
