"""Makes of a row of the table something that boots: the kernel's file, and the modules that a guest needs before it
sees this machine's files.
"""

from __future__ import annotations

import lzma
import re
from pathlib import Path

from scripts.lab import LabError, NotAvailable
from scripts.lab.boot import Image
from scripts.lab.build import built, home_of
from scripts.lab.cache import cache_directory
from scripts.lab.fetch import Package, choose, unpacked
from scripts.lab.kernels import SOURCE_PACKAGE, Kernel

NEEDED = ("virtio_pci", "9pnet_virtio", "9p", "overlay")


def package_of(kernel: Kernel) -> Package:
    """The newest version of what the kernel is made from. Raises `NotAvailable`."""
    return choose(kernel.package or SOURCE_PACKAGE.replace(".", r"\."))


def image_of(kernel: Kernel) -> Image:
    """The kernel, fetched or built if it is not there yet. Raises `LabError`."""
    package = package_of(kernel)
    if kernel.package is None:
        return Image(built(package) / "vmlinux", (), kernel.append)
    home = unpacked(package, kernel.parts)
    return Image(_file_in(home), modules_of(home), kernel.append)


def is_cached(kernel: Kernel, package: Package) -> bool:
    """Whether it would boot without fetching or building anything."""
    name = home_of(package) if kernel.package is None else str(package)
    return (cache_directory() / name).is_dir()


def _file_in(home: Path) -> Path:
    for path in (*home.glob("boot/vmlinuz-*"), *home.glob("usr/lib/modules/*/vmlinuz")):
        return path
    raise NotAvailable(f"{home} holds no kernel")


def modules_of(image: Path) -> list[tuple[str, bytes]]:
    """Name and content of the modules that an unpacked image needs, what others depend on first.

    What is built in is no module, and left out.
    """
    folder = next((modules for modules in (image / "lib/modules", image / "usr/lib/modules") if modules.is_dir()), None)
    if folder is None:
        raise LabError(f"{image} holds no modules")
    files = {_name(path): path for path in folder.rglob("*.ko*")}
    listed = (line for path in folder.glob("*/modules.builtin") for line in path.read_text().split())
    builtin = {_name(Path(line)) for line in listed}
    order: dict[str, bytes] = {}

    def take(name: str) -> None:
        if name in order or name in builtin:
            return
        if name not in files:
            raise LabError(f"{image} has no module {name}")
        content = _content(files[name])
        for other in depends(content):
            take(other)
        order[name] = content

    for name in NEEDED:
        take(name)
    return list(order.items())


def depends(content: bytes) -> list[str]:
    """The modules that a module names in its `.modinfo`: strings of the form `depends=a,b`, closed by NUL."""
    match = re.search(rb"(?:^|\0)depends=([^\0]*)\0", content)
    if match is None:
        return []
    return [name.replace("-", "_") for name in match[1].decode().split(",") if name]


def _name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content
