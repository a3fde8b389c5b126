"""From a row of the table to something that boots."""

from __future__ import annotations

from pathlib import Path

from scripts.lab.boot import Image
from scripts.lab.build import built, home_of
from scripts.lab.cache import cache_directory
from scripts.lab.errors import NotAvailable
from scripts.lab.fetch import Package, choose, unpacked
from scripts.lab.kernels import SOURCE_PACKAGE, Kernel
from scripts.lab.modules import modules_of


def package_of(kernel: Kernel) -> Package:
    """The newest version of what the kernel is made from. Raises `NotAvailable`."""
    return choose(kernel.package or SOURCE_PACKAGE.replace(".", r"\."))


def image_of(kernel: Kernel) -> Image:
    """The kernel, fetched or built if it is not there yet. Raises `LabError`."""
    package = package_of(kernel)
    if kernel.package is None:
        return Image(built(package) / "vmlinux", (), kernel.append)
    home = unpacked(package)
    return Image(_file_in(home), modules_of(home), kernel.append)


def is_cached(kernel: Kernel, package: Package) -> bool:
    """Whether it would boot without fetching or building anything."""
    name = home_of(package) if kernel.package is None else str(package)
    return (cache_directory() / name).is_dir()


def _file_in(home: Path) -> Path:
    for path in sorted((home / "boot").glob("vmlinuz-*")):
        return path
    raise NotAvailable(f"{home} holds no kernel")
