"""Finds the distribution's BCC binding.

It is a pure Python package over libbcc, installed for the system's interpreter; any other interpreter and a virtual
environment can load it from there by its path. `bcc` on PyPI is something else (a crystal lattice): it has no `libbcc`
module, and is named so that nobody wonders.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from tracer.dataclass import dataclass

_PLACES = (
    "/usr/lib/python3/dist-packages",
    "/usr/lib/python3*/site-packages",
    "/usr/lib64/python3*/site-packages",
    "/usr/lib/python3*/dist-packages",
    "/usr/local/lib/python3*/dist-packages",
    "/usr/local/lib/python3*/site-packages",
)

_PACKAGES = (
    (("debian", "ubuntu"), "sudo apt-get install python3-bpfcc"),
    (("fedora", "rhel", "centos"), "sudo dnf install python3-bcc"),
    (("suse", "opensuse", "sles"), "sudo zypper install python3-bcc"),
    (("alpine",), "sudo apk add py3-bcc bcc-tools"),
    (("arch",), "sudo pacman -S python-bcc"),
)


@dataclass(frozen=True, slots=True)
class Binding:
    """The package's folder and the version it states."""

    folder: Path
    version: str


@dataclass(frozen=True, slots=True)
class NoBinding:
    """There is no BCC binding; `unrelated` is another package named bcc in its place."""

    hint: str
    unrelated: Path | None = None

    @property
    def reason(self) -> str:
        """The problem in one line."""
        if self.unrelated is not None:
            return (
                f"the package bcc in {self.unrelated} is an unrelated one, "
                "and the BPF Compiler Collection is not installed"
            )
        return "the BPF Compiler Collection (libbcc and its Python binding) is not installed"


def find_binding() -> Binding | NoBinding:
    """Looks in the distributions' folders first and on our own path last. Loads nothing."""
    unrelated = None
    for folder in _candidates():
        if (folder / "libbcc.py").is_file():
            return Binding(folder, _version(folder))
        unrelated = unrelated or folder
    return NoBinding(install_command(), unrelated)


def _candidates() -> Iterator[Path]:
    for pattern in _PLACES:
        for place in sorted(_matching(pattern), reverse=True):
            if os.path.isdir(f"{place}/bcc"):
                yield Path(place) / "bcc"
    try:
        spec = importlib.util.find_spec("bcc")
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.submodule_search_locations:
        yield from (folder for folder in map(Path, spec.submodule_search_locations) if folder.is_dir())


def _matching(pattern: str) -> list[str]:
    if "*" not in pattern:
        return [pattern] if os.path.exists(pattern) else []
    from glob import glob  # where the usual place has none

    return glob(pattern)


def _version(folder: Path) -> str:
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    return text.partition("=")[2].strip().strip("'\"") or "unknown"


def install_command(os_release: str = "/etc/os-release") -> str:
    """The command that installs the binding on this distribution."""
    from tracer.opening import content

    names: set[str] = set()
    try:
        for line in content(os_release, 1 << 16).decode("utf-8", "replace").splitlines():
            key, _, text = line.partition("=")
            if key in ("ID", "ID_LIKE"):
                names |= set(text.strip().strip('"').split())
    except OSError:
        pass
    for distributions, command in _PACKAGES:
        if any(name.startswith(distribution) for name in names for distribution in distributions):
            return command
    return "install the distribution's Python binding of BCC (python3-bpfcc, python3-bcc)"


def library_path() -> str | None:
    """The path of libbcc itself, as the loader's usual folders have it; its name holds its version."""
    folders = (f"/usr/lib/{os.uname().machine}-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/*", "/lib/*")
    for folder in folders:
        for path in _matching(f"{folder}/libbcc.so.0"):
            return os.path.realpath(path)
    return None
