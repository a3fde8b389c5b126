"""Finds the thread that holds up the kernel where it attaches or removes probes, and says what frees it.

The kernel takes a probe out, and puts in some, only once no thread runs a handler any more that may have begun before
(SRCU and RCU tasks trace, for all probes of the machine). A handler that reads memory waits in it for a page that does
not come. /proc/TID/wchan says where a thread sleeps, and /proc/TID/stack whether that is inside a handler. Neither
waits for the thread. Source: proc(5).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from tracer.dataclass import dataclass
from tracer.errors import TracerError, printable
from tracer.host.maps import mappings
from tracer.host.unserved import mounts_of_others

_LONGEST_S, _SETTLES_S, _ROUNDS = 1.0, 0.1, 16
_HANDLERS = frozenset(
    ("uprobe_notify_resume", "handle_syscall_uprobe", "uprobe_handle_trampoline", "__x64_sys_uretprobe")
)
"""They call the handlers of user probes, those of BPF programs too: at a trap, or in a system call (6.11, 6.18)."""
_IDLE = {
    "0", "__do_sys_pause", "__skb_wait_for_more_packets", "anon_pipe_read", "do_epoll_wait", "do_select",
    "do_signal_stop", "do_sigtimedwait", "do_sys_poll", "do_wait", "ep_poll", "futex_do_wait", "futex_wait_queue",
    "futex_wait_queue_me", "hrtimer_nanosleep", "inet_csk_accept", "irq_thread", "kthread_worker_fn", "pipe_read",
    "pipe_wait", "poll_schedule_timeout", "ptrace_stop", "rescuer_thread", "sigsuspend", "smpboot_thread_fn",
    "unix_stream_data_wait", "unix_stream_read_generic", "wait_woken", "worker_thread",
}  # fmt: skip
"""Where most threads sleep, and none in a handler: no more is read of these."""
_PAGES = {
    "handle_userfault": "a page that the owner of a userfaultfd has to supply",
    "fuse_": "a page of a file whose FUSE file system does not answer",
    "nfs_": "a page of a file whose NFS server does not answer",
}
"""By how the name of a function on the kernel's stack begins."""
_CONNECTIONS = "/sys/fs/fuse/connections"

_SWEEP_S, _STAYS_S = 1.0, 1.0
"""How often all threads are looked at, and how long one has slept in a handler of which that is told."""
_SHARE, _LEAST_S, _MOST_S, _PIECE = 50, 0.002, 0.02, 16
"""One part of so many of the time goes into looks; how long one may take, and after how many threads that is asked."""


@dataclass(frozen=True, slots=True)
class Held:
    """A thread that sleeps in a handler: where, and what frees it, in words. `switches` tells one sleep from another;
    `address` is where the thread is in its program, 0 where that is not known.
    """

    pid: int
    thread: int
    words: str
    switches: str
    address: int


def holder() -> str | None:
    """The words on the first thread that sleeps in a handler; None where none does, or /proc does not say so."""
    held = next(_held_of((), time.monotonic() + _LONGEST_S), None)
    return None if held is None else held.words


def settle() -> None:
    """Returns once no thread stays in a handler, as far as that can be seen. Where they only come and go, as on a busy
    machine, the kernel waits for less than that.
    """
    for _ in range(_ROUNDS):
        held = next(_held_of((), time.monotonic() + _SETTLES_S), None)
        if held is None:
            return
        pause = 0.001
        while (now := _held(held.pid, held.thread)) is not None and now.switches == held.switches:
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


class Patrol:
    """Looks for threads that stay in a handler: of some processes, or (without any) of all, a few at each look."""

    def __init__(self, pids: Sequence[int] = ()) -> None:
        self._pids = pids
        self._threads: Iterator[tuple[int, int]] | None = None
        self._next = self._last = time.monotonic()
        self._seen: dict[tuple[int, int], tuple[str, float]] = {}
        self._told: set[tuple[int, int, str]] = set()

    def look(self) -> Held | None:
        """A thread that has slept in a handler for a second; each sleep is told once."""
        now = time.monotonic()
        for (pid, thread), (switches, since) in list(self._seen.items()):
            if now < since + _STAYS_S:
                continue
            del self._seen[pid, thread]
            held = _held(pid, thread)
            if held is not None and held.switches == switches:
                self._told.add((pid, thread, switches))
                return held
        until, self._last = now + min(max((now - self._last) / _SHARE, _LEAST_S), _MOST_S), now
        while True:
            if self._threads is None:
                if now < self._next:
                    return None
                self._threads, self._next = _threads(self._pids), now + _SWEEP_S
            for _ in range(_PIECE):
                key = next(self._threads, None)
                if key is None:
                    self._threads = None
                    return None
                held = _held(*key)
                if held is not None and (*key, held.switches) not in self._told:
                    self._seen.setdefault(key, (held.switches, now))
            now = time.monotonic()
            if now > until:
                return None


def _held_of(only: Sequence[int], until: float) -> Iterator[Held]:
    for pid, thread in _threads(only):
        if time.monotonic() > until:
            return
        if (held := _held(pid, thread)) is not None:
            yield held


def _held(pid: int, thread: int) -> Held | None:
    directory = f"/proc/{pid}/task/{thread}"
    where = _read(f"{directory}/wchan")
    if not where or where.partition(".")[0] in _IDLE:
        return None  # it runs, has ended, or has nothing to do
    functions = [line.split()[-1].partition("+")[0] for line in _read(f"{directory}/stack").splitlines() if line]
    if _HANDLERS.isdisjoint(functions):
        return None
    name = printable(_read(f"{directory}/comm").rstrip("\n"))
    page = next((text for begin, text in _PAGES.items() if any(name.startswith(begin) for name in functions)), "")
    waits = f"waits for {page}, in {where}" if page else f"sleeps in {where}"
    which = f"process {pid} ({name})" if pid == thread else f"thread {thread} ({name}) of process {pid}"
    words = f"{which} is in a probe and {waits}: {_freed(pid, functions)}"
    switches = _read(f"{directory}/status").partition("\nvoluntary_ctxt_switches:")[2]
    place = _read(f"{directory}/syscall").split()
    trapped = len(place) == 3 and place[0] == "-1"  # in no system call: the stack pointer and the address follow
    return Held(pid, thread, words, switches, int(place[2], 16) if trapped else 0)


def _freed(pid: int, functions: Sequence[str]) -> str:
    """The remedy that frees a thread that has these on the kernel's stack. A request that a FUSE server has read is
    waited for whatever comes (request_wait_answer).
    """
    if "request_wait_answer" not in functions:
        return f"kill -9 {pid} frees it"
    mounts: dict[str, int] = {}
    with suppress(OSError, TracerError):
        fuse = [mount for mount in mounts_of_others(f"/proc/{pid}/mountinfo") if mount[0].startswith("fuse")]
        mapped = {mapping.file[0] for mapping in mappings(pid) if mapping.file is not None} if len(fuse) > 1 else set()
        mounts = {
            printable(place): device
            for _, place, device in fuse
            if len(fuse) == 1 or f"{os.major(device):02x}:{os.minor(device):02x}" in mapped
        }
    served = " or ".join(sorted(mounts)) or "that file system"
    aborts = [f"{_CONNECTIONS}/{os.minor(device)}/abort" for device in mounts.values()]
    ways = [f", or: echo 1 > {abort}" for abort in aborts if os.path.exists(abort)]
    return f"kill -9 does not free it, the end of what serves {served} does{''.join(ways)}"


def _threads(only: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The threads of some processes, or of all but our own."""
    our_pid = os.getpid()
    for name in map(str, only) if only else os.listdir("/proc"):
        if not name.isdigit() or int(name) == our_pid:
            continue
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{name}/task"):
                yield int(name), int(thread)


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 1 << 14).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
