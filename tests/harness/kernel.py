"""The traces of tracers in the kernel: lines of uprobe_events, tracefs instances, BPF programs, maps, links and pins.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from glob import iglob
from pathlib import Path

from tests.harness.cli import PATIENCE

TRACEFS = Path("/sys/kernel/tracing")

_SYS_BPF = 321  # x86-64
_BPF_PROG_GET_NEXT_ID, _BPF_MAP_GET_NEXT_ID, _BPF_LINK_GET_NEXT_ID = 11, 12, 31
# The kernel frees what nobody holds any more after a grace period, which is long where others want the CPU.
_GRACE_S = 30.0


@dataclass(frozen=True)
class Traces:
    """A snapshot: everything that somebody's tracing may have left."""

    uprobes: frozenset[str]
    instances: frozenset[str]
    programs: frozenset[int]
    maps: frozenset[int]
    links: frozenset[int]
    pins: frozenset[str]

    def beyond(self, before: Traces) -> dict[str, list[object]]:
        """The traces that are here and were not before, by kind."""
        return {
            field.name: sorted(new)
            for field in fields(self)
            if (new := getattr(self, field.name) - getattr(before, field.name))
        }

    def still_in(self, later: Traces) -> Traces:
        """The traces that are in both."""
        return Traces(*(getattr(self, field.name) & getattr(later, field.name) for field in fields(self)))


def traces() -> Traces:
    """The traces that there are now."""
    instances = TRACEFS / "instances"
    pins = Path("/sys/fs/bpf")
    return Traces(
        uprobes=frozenset(uprobe_events()),
        instances=frozenset(entry.name for entry in instances.iterdir()) if instances.is_dir() else frozenset(),
        programs=frozenset(_ids(_BPF_PROG_GET_NEXT_ID)),
        maps=frozenset(_ids(_BPF_MAP_GET_NEXT_ID)),
        links=frozenset(_ids(_BPF_LINK_GET_NEXT_ID)),
        pins=frozenset(str(path) for path in pins.rglob("*")) if pins.is_dir() else frozenset(),
    )


def uprobe_events() -> list[str]:
    """The lines of uprobe_events; none where lockdown hides it, as nothing can be left there then."""
    try:
        return (TRACEFS / "uprobe_events").read_text(errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []


def left_since(before: Traces, patience_s: float = _GRACE_S) -> dict[str, list[object]]:
    """The traces that are new since a snapshot and stay, after giving the kernel time to free what nobody holds.

    What a living process holds open is not left, nor is what another program defined: they may run beside the tests.
    """
    end = time.monotonic() + patience_s * PATIENCE
    beyond = traces()
    while (lasting := _held_by_nobody(beyond.beyond(before))) and time.monotonic() < end:
        time.sleep(0.05)
        beyond = beyond.still_in(traces())
    return lasting


def _held_by_nobody(beyond: dict[str, list[object]]) -> dict[str, list[object]]:
    held = _held() if beyond else {}
    not_held = {
        kind: [one for one in ones if one not in held.get(kind, ()) and not _is_of_another(one)]
        for kind, ones in beyond.items()
    }
    return {kind: ones for kind, ones in not_held.items() if ones}


@contextmanager
def nothing_left() -> Iterator[Traces]:
    """Fails if what happens inside leaves anything in the kernel."""
    before = traces()
    yield before
    lasting = left_since(before)
    assert not lasting, f"left behind: {lasting}"


def _held() -> dict[str, set[int]]:
    """BPF objects that living processes hold a descriptor of, by kind."""
    held: dict[str, set[int]] = {"programs": set(), "maps": set(), "links": set()}
    kinds = {"prog_id": "programs", "map_id": "maps", "link_id": "links"}
    for info in iglob("/proc/[0-9]*/fdinfo/*"):  # pathlib's would fail where a process ends meanwhile
        with suppress(OSError):
            for line in Path(info).read_text(errors="replace").splitlines():
                name, _, value = line.partition(":")
                if name in kinds:
                    held[kinds[name]].add(int(value))
    return held


def _is_of_another(one: object) -> bool:
    """Whether a definition is of another program or of another tracer that runs: its group names it by pid."""
    if not isinstance(one, str) or re.match(r"[pr]\d*:", one) is None:
        return False
    named = re.match(r"[pr]\d*:tracer_(\d+)_", one)
    return named is None or (int(named[1]) != os.getpid() and os.path.exists(f"/proc/{named[1]}"))


def _ids(command: int) -> Iterator[int]:
    libc = ctypes.CDLL(None, use_errno=True)
    # union bpf_attr, the part of BPF_*_GET_NEXT_ID: start_id, next_id, open_flags; all of it 0 beyond.
    attribute = (ctypes.c_uint32 * 32)()
    while True:
        if libc.syscall(_SYS_BPF, command, ctypes.byref(attribute), ctypes.sizeof(attribute)) != 0:
            number = ctypes.get_errno()
            if number in (errno.ENOENT, errno.ENOSYS, errno.EINVAL):
                return
            raise OSError(number, os.strerror(number))
        yield attribute[1]
        attribute[0] = attribute[1]


class KernelLog:
    """The kernel's messages about breakpoints that it did not take out, from now on; nothing where it cannot be read.
    """

    def __init__(self) -> None:
        try:
            self._log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)
        except OSError:
            self._log = -1

    def leaks(self) -> list[str]:
        """The new lines: "ref_ctr decrement failed for inode: 0x2a offset: …" and, of the program that removed it,
        "uprobe: bpftrace:4242 failed to unregister, leaking uprobe".
        """
        lines = []
        while self._log >= 0:
            try:
                line = os.read(self._log, 8192).decode(errors="replace").partition(";")[2].strip()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # some were overwritten before they were read
                    continue
                raise
            if "leaking uprobe" in line or "ref_ctr decrement failed" in line:
                lines.append(line)
        return lines

    def close(self) -> None:
        """Lets go of it."""
        if self._log >= 0:
            os.close(self._log)
            self._log = -1
