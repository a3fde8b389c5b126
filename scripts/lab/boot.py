"""One run of a guest: a kernel, a command, and what came of it.

The processor runs it itself where KVM can (`/dev/kvm`); where a guest of it is not up within seconds, as on machines
that are guests themselves and only seem to have KVM, it is emulated.

The guest's root is this machine's `/` with a layer of memory over it: it sees all files as they were when it booted,
and changes none. A directory that both share carries the command in, and its output and exit status out, so that
neither depends on a terminal, and what was written before a crash is here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from scripts.lab import LabError
from scripts.lab.children import child
from scripts.lab.initramfs import initramfs

_PROCESSORS = 2
_MEMORY = "2G"
_LOOK_EVERY_S = 0.05
_KVM = Path("/dev/kvm")
_KVM_BOOTS_WITHIN_S = 10.0

# An oops ends the guest, and says where it was. Mitigations and a fifth level of page tables only cost time here. Linux
# tries its timer by waiting ten ticks; on a busy machine an emulated one comes too late, and the guest panicked.
_COMMAND_LINE = (
    "console=ttyS0 loglevel=4 panic=-1 oops=panic mitigations=off nokaslr no5lvl random.trust_cpu=on no_timer_check"
)

# Emulated by one thread, since with one thread for each processor one kernel in six crashed in the emulator (qemu 7.2,
# Linux 6.1). The default's family has an erratum for which Linux gives up the time-stamp counter.
_EMULATED = ("-accel", "tcg,thread=single", "-cpu", "max,family=25,model=1")
_ACCELERATED = ("-accel", "kvm", "-cpu", "host")

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
_READ_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")


@dataclass(frozen=True)
class Image:
    """The files to boot: a kernel's file, the modules it needs for its files, words for its command line."""

    kernel: Path
    modules: Sequence[tuple[str, bytes]] = ()
    append: str = ""


@dataclass(frozen=True)
class Ended:
    """The end of a run: `status` is the command's, None where the guest never said (it crashed, or time was up)."""

    status: int | None
    console: str
    booted_after_s: float | None
    took_s: float
    time_was_up: bool


def run(
    image: Image,
    command: Sequence[str],
    *,
    timeout_s: float,
    out: BinaryIO,
    err: BinaryIO,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    share: Path | None = None,
) -> Ended:
    """Boots, runs the command as root in `directory`, and passes on what it prints, as it comes.

    One word is a line for the shell, several are a command and its arguments. `share` is the directory that the guest
    sees as /run/vm, for results; one that is forgotten afterwards unless given.
    """
    qemu = shutil.which("qemu-system-x86_64")
    if qemu is None:
        raise LabError("qemu-system-x86_64 is not installed; install qemu-system-x86")
    with tempfile.TemporaryDirectory(prefix="tracer-vm.") as place:
        home = Path(place)
        share = share or home / "share"
        share.mkdir(exist_ok=True)
        (share / "command").write_text(_script(command, environment or {}, directory or Path.cwd()))
        (home / "initramfs").write_bytes(initramfs(image.modules))
        for accelerator in (_ACCELERATED, _EMULATED) if os.access(_KVM, os.R_OK | os.W_OK) else (_EMULATED,):
            for name in ("out", "err"):
                (share / name).write_bytes(b"")
            is_last = accelerator == _EMULATED
            words = _machine(qemu, accelerator, image, home, share)
            with (home / "qemu").open("wb") as said, child(words, said) as machine:
                if not is_last and not _is_up(machine, share, _KVM_BOOTS_WITHIN_S):
                    continue
                return _follow(machine, home, share, timeout_s, (out, err))
    raise AssertionError("the emulator is always tried")


def _is_up(machine: subprocess.Popen[bytes], share: Path, within_s: float) -> bool:
    """Waits until the guest says so; False where it ends first, or time is up."""
    end = time.monotonic() + within_s
    while not (up := (share / "up").exists()) and machine.poll() is None and time.monotonic() < end:
        time.sleep(_LOOK_EVERY_S)
    return up


def _follow(
    machine: subprocess.Popen[bytes],
    home: Path,
    share: Path,
    timeout_s: float,
    ends: tuple[BinaryIO, BinaryIO],
) -> Ended:
    start = time.monotonic()
    booted = None
    time_was_up = False
    with (share / "out").open("rb") as out, (share / "err").open("rb") as err:

        def relay() -> None:
            for source, sink in zip((out, err), ends, strict=True):
                if data := source.read():
                    sink.write(data)
                    sink.flush()

        while True:
            ended = machine.poll() is not None
            if booted is None and (share / "up").exists():
                booted = time.monotonic() - start
            relay()
            if ended or _status(share / "status") is not None:
                break
            if time.monotonic() - start > timeout_s:
                time_was_up = True
                break
            time.sleep(_LOOK_EVERY_S)
        relay()  # the status comes after the last word
    console = (home / "qemu").read_text(errors="replace")
    if (home / "console").exists():
        console += (home / "console").read_text(errors="replace")
    return Ended(_status(share / "status"), console, booted, time.monotonic() - start, time_was_up)


def _status(path: Path) -> int | None:
    """The status in a file; None where that is not there or not whole: the guest makes it, and then writes it."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    return int(text) if text.endswith("\n") else None


def _script(command: Sequence[str], environment: Mapping[str, str], directory: Path) -> str:
    variables = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        **environment,
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    line = command[0] if len(command) == 1 else shlex.join(command)
    return "\n".join([*lines, f"cd {shlex.quote(str(directory))} || exit 126", line, ""])


def _machine(qemu: str, accelerator: Sequence[str], image: Image, home: Path, share: Path) -> list[str]:
    # Two processors, so that threads interleave.
    return [
        qemu,
        *accelerator,
        *("-M", "q35"),
        *("-smp", f"{_PROCESSORS},sockets={_PROCESSORS}"),
        *("-m", _MEMORY),
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-kernel", str(image.kernel), "-initrd", str(home / "initramfs")),
        *("-append", " ".join((_COMMAND_LINE, *_clock(), image.append))),
        *("-serial", f"file:{home / 'console'}"),
        *("-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"),
        *("-virtfs", f"local,path={_escaped(share)},mount_tag=share,security_model=none"),
    ]


def _clock() -> tuple[str, ...]:
    """Linux is told the counter's frequency: it would measure it by waiting, and on a busy machine it gives up, and is
    left with a clock of 4 ms where there is no other.
    """
    khz = _counter_khz()
    return () if khz is None else ("tsc=reliable", f"tsc_early_khz={khz}")


def _counter_khz() -> int | None:
    """The rate of this machine's time-stamp counter, which is what an emulated one shows, if it has one."""
    if platform.machine() != "x86_64":
        return None
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_READ_COUNTER)
    here = ctypes.c_char.from_buffer(page)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(here))
    start, ticks = time.monotonic_ns(), read()
    time.sleep(0.05)
    took, ran = time.monotonic_ns() - start, read() - ticks
    return int(ran * 1_000_000 / took)


def _escaped(path: Path) -> str:
    """A path in an option of qemu's, whose parts end at commas."""
    return str(path).replace(",", ",,")
