"""The numbers of processes and threads, where tracer runs in a pid namespace of its own (a container).

BPF programs are told the numbers of the first namespace. The helper for others (bpf_get_ns_current_pid_tgid, Linux 5.7)
knows the processes whose own namespace is ours; of those in one inside it, which have a number in ours too, it says
nothing (tried on 6.18), though perf does. So these are read where the kernel keeps them: a task has a `struct pid`, and
this a number for each namespace that the task is in (pid_nr_ns of kernel/pid.c). A process outside of ours has none: 0.

Only programs that are loaded from inside a namespace do so (NAMESPACED in prelude.h). Where the members lie, and which
namespace is ours, is put into the code when it is loaded, so that what is cached fits every kernel and container.
"""

from __future__ import annotations

import os
from functools import lru_cache

from tracer.backends.bcc.host import trials
from tracer.host.first_namespace import in_first_pid_namespace
from tracer.kernel.disabled import is_disabled
from tracer.plan.states import Unsupported, elsewhere

TAG = 0xFEED_FACA
"""The high half of the constants that `words` replaces."""

_KERNEL = "/sys/kernel/btf/vmlinux"
_HERE = "processes have other numbers in this container (a pid namespace)"
_PROC = "/proc/PID/status shows it for a running process"
NO_BTF = Unsupported("the kernel has no BTF, which says where these numbers are", _PROC)
_MEMBERS = {
    "task_struct": ("group_leader", "thread_pid", "real_parent", "tgid", "comm", "self_exec_id", "mm"),
    "mm_struct": ("mm_lock_seq",),
    "pid": ("level", "numbers"),
    "upid": ("nr", "ns"),
    "pid_namespace": ("ns",),
    "ns_common": ("inum",),
}


def translated() -> bool:
    """Whether programs must look for the numbers: not in the first namespace, nor in a kernel without namespaces."""
    return in_first_pid_namespace() is False


def missing() -> Unsupported | None:
    """Why the numbers cannot be known here; None where they can."""
    if not translated():
        return None
    if not trials.has("kernel_reads"):
        return Unsupported(f"{_HERE}, and BPF may not read the kernel's", elsewhere("ftrace"))
    return None if words() else Unsupported(f"{_HERE}, and the kernel has no BTF", elsewhere("ftrace"))


def untold() -> Unsupported | None:
    """Why what the kernel keeps of processes cannot be read here; None where it can."""
    if not trials.has("kernel_reads"):
        return Unsupported("BPF may not read the kernel's memory here", _PROC)
    return None if _places() else NO_BTF


def has_btf() -> bool:
    """Whether the kernel says where its structures have their members."""
    return not is_disabled("btf") and os.path.exists(_KERNEL)


def sequenced() -> bool:
    """Whether the kernel numbers the changes of a process's mappings."""
    return bool(_places()) and _places()[-1] != 0


def words() -> tuple[int, ...]:
    """The numbers for OF_KERNEL(0), OF_KERNEL(1), … in prelude.h; none where the kernel does not say."""
    try:
        ours = os.stat("/proc/self/ns/pid")
    except OSError:
        return ()
    device = os.major(ours.st_dev) << 20 | os.minor(ours.st_dev)  # as the kernel packs it (MKDEV)
    places = _places()
    return (*places[:5], ours.st_ino, device, *places[5:]) if places else ()


@lru_cache(maxsize=1)
def _places() -> tuple[int, ...]:
    if not has_btf():
        return ()
    from tracer.kernel import btf

    try:
        offsets = btf.own_offsets(_MEMBERS)
        if (offsets["upid", "nr"], offsets["upid", "ns"]) != (0, 8):
            return ()
        inum = offsets["pid_namespace", "ns"] + offsets["ns_common", "inum"]
        task = offsets["task_struct", "group_leader"], offsets["task_struct", "thread_pid"]
        more = [offsets["task_struct", member] for member in ("real_parent", "tgid", "comm", "self_exec_id")]
        # Linux 6.4 has this one, or not, by its configuration.
        memory = offsets["task_struct", "mm"], offsets.get(("mm_struct", "mm_lock_seq"), 0)
        return *task, offsets["pid", "level"], offsets["pid", "numbers"], inum, *more, *memory
    except (OSError, ValueError, KeyError):
        return ()
