"""Which thread holds up the kernel where it attaches or removes probes, and what frees it.

The kernel takes a probe out, and puts in some, only once no thread runs a handler any more that may have begun before
(SRCU and RCU tasks trace, for all probes of the machine). A handler that reads memory waits in it for a page that does
not come. /proc/TID/wchan says where a thread sleeps, and /proc/TID/stack whether that is inside a handler. Neither
waits for the thread. Source: proc(5).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from tracer.errors import printable

_LONGEST_S = 1.0
_HANDLER = "uprobe_notify_resume"
"""Calls every handler of a user probe, those of BPF programs too."""
_ASLEEP = ("D", "S", "I")
_PAGES = {
    "handle_userfault": "a page that the owner of a userfaultfd has to supply",
    "fuse_": "a page of a file whose FUSE file system does not answer",
    "nfs_": "a page of a file whose NFS server does not answer",
}
"""By how the name of a function on the kernel's stack begins."""


def holder() -> str | None:
    """The first thread that sleeps in a handler, where it sleeps, and what frees it, in words; None where none does, or
    /proc does not say so.
    """
    until = time.monotonic() + _LONGEST_S
    for pid, thread in _threads():
        if time.monotonic() > until:
            return None
        directory = f"/proc/{pid}/task/{thread}"
        where = _read(f"{directory}/wchan")
        if where in ("", "0"):
            continue  # it runs
        functions = [line.split()[-1].partition("+")[0] for line in _read(f"{directory}/stack").splitlines() if line]
        if _HANDLER not in functions:
            continue
        name = printable(_read(f"{directory}/comm").rstrip("\n"))
        page = next((text for begin, text in _PAGES.items() if any(each.startswith(begin) for each in functions)), "")
        waits = f"waits for {page}, in {where}" if page else f"sleeps in {where}"
        which = f"process {pid} ({name})" if pid == thread else f"thread {thread} ({name}) of process {pid}"
        return f"{which} is in a probe and {waits}: kill -9 {pid} frees it"
    return None


def _threads() -> Iterator[tuple[int, int]]:
    """Those that sleep."""
    own = os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        try:
            threads = os.listdir(f"/proc/{name}/task")
        except OSError:
            continue
        for thread in threads:
            state = _read(f"/proc/{name}/task/{thread}/stat").rpartition(")")[2].split()
            if state and state[0] in _ASLEEP:
                yield int(name), int(thread)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
