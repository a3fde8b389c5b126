"""The guest's first files: a cpio archive of the "newc" kind (Documentation/driver-api/early-userspace/buffer-format).

They mount this machine's `/` over 9p, read-only, lay a layer of memory over it, and run the command in there.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.lab import LabError

# The command's output goes to files of the host, written through, so that it survives the death of the guest.
INIT = r"""#!/bin/busybox sh
export PATH=/bin
fail() { echo "vm: $*"; reboot -f; }
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module || echo "vm: cannot insert $module"; done
with=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o ro,cache=loose,$with root /host || fail "no files of the host"
mount -t tmpfs -o size=80% layer /layer && mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /new || fail "no overlay"
mount --move /proc /new/proc
mount --move /dev /new/dev
mount -t sysfs sys /new/sys
mount -t tmpfs tmpfs /new/run
mkdir -p /new/dev/pts /new/dev/shm /new/run/vm
mount -t devpts devpts /new/dev/pts
mount -t tmpfs tmpfs /new/dev/shm
mount -t 9p -o cache=none,$with share /new/run/vm || fail "no place for results"
[ -d /new/sys/kernel/tracing ] && mount -t tracefs tracefs /new/sys/kernel/tracing
[ -d /new/sys/kernel/debug ] && mount -t debugfs debugfs /new/sys/kernel/debug
[ -d /new/sys/kernel/security ] && mount -t securityfs securityfs /new/sys/kernel/security
[ -d /new/sys/fs/bpf ] && mount -t bpf bpf /new/sys/fs/bpf
ip link set lo up
echo up > /new/run/vm/up
chroot /new /bin/sh /run/vm/command < /new/dev/null >> /new/run/vm/out 2>> /new/run/vm/err
echo $? > /new/run/vm/status
reboot -f
"""

_DIRECTORIES = ("bin", "dev", "host", "layer", "modules", "new", "proc", "sys")


def initramfs(modules: Sequence[tuple[str, bytes]]) -> bytes:
    """The archive, with the modules that are to be inserted."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise LabError("busybox is not installed; install busybox-static")
    files = {
        "init": INIT.encode(),
        "bin/busybox": Path(busybox).read_bytes(),
        "modules/order": "".join(f"{name}\n" for name, _ in modules).encode(),
        **{f"modules/{name}": content for name, content in modules},
    }
    return archive(_DIRECTORIES, files)


def archive(directories: Sequence[str], files: Mapping[str, bytes]) -> bytes:
    """A cpio archive; all files may be executed."""
    entries = [_entry(name, stat.S_IFDIR | 0o755, b"") for name in directories]
    entries += [_entry(name, stat.S_IFREG | 0o755, content) for name, content in files.items()]
    # Entries of one inode number would be links to one another; 0 with one link is nobody's.
    return b"".join((*entries, _entry("TRAILER!!!", 0, b"")))


def _entry(name: str, mode: int, content: bytes) -> bytes:
    path = name.encode() + b"\0"
    # magic, then: inode, mode, uid, gid, links, time, size, device, node, length of the name, checksum
    numbers = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % number for number in numbers) + path
    return _padded(head) + _padded(content)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)
