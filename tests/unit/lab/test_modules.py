from __future__ import annotations

import lzma
from pathlib import Path

from scripts.lab.images import depends, modules_of


def module(name: str, *others: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + ",".join(others).encode() + b"\0name=" + name.encode() + b"\0"


def test_a_module_names_what_it_depends_on() -> None:
    assert depends(module("9p", "9pnet", "fscache", "net-fs")) == ["9pnet", "fscache", "net_fs"]
    assert depends(module("9pnet")) == []
    assert depends(b"no module at all") == []


def test_what_others_depend_on_comes_first_and_what_is_built_in_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib/modules/6.99"
    folder.mkdir(parents=True)
    (folder / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    (folder / "9p.ko").write_bytes(module("9p", "9pnet"))
    (folder / "9pnet.ko").write_bytes(module("9pnet"))
    (folder / "9pnet_virtio.ko.xz").write_bytes(lzma.compress(module("9pnet_virtio", "9pnet", "virtio_pci")))
    (folder / "overlay.ko").write_bytes(module("overlay"))
    (folder / "ext4.ko").write_bytes(module("ext4", "nobody"))
    found = modules_of(tmp_path)
    assert [name for name, _ in found] == ["9pnet", "9pnet_virtio", "9p", "overlay"]
    assert found[1][1] == module("9pnet_virtio", "9pnet", "virtio_pci")
