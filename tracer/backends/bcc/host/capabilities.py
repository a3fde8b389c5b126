"""Finds what BPF allows on this host, for `check` and `tracer info`, by trying: in milliseconds, without loading
libbcc.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection

from tracer.backends.bcc.host import pid_namespace, trials
from tracer.backends.bcc.host.binding import Binding, find_binding, library_path
from tracer.backends.bcc.host.features import NO_BPF, NO_RING, states
from tracer.lang import features
from tracer.lang.features import Feature
from tracer.plan.states import NEEDS_ROOT, Capabilities, State, Unsupported, settled

_TRIALS = {
    "ring": ("bpf ring buffer", "needs Linux 5.8"),
    "sleepable": ("bpf sleepable", "needs Linux 6.0; strings on pages not in memory are counted"),
    "kernel_reads": ("bpf kernel reads", "kernel lockdown closes them; not needed"),
    "atomics": ("bpf atomics", "needs Linux 5.12; min, max, some strings: --backend ftrace"),
    "walks": ("bpf map walks", "needs Linux 5.13; for over a map in a probe: --backend ftrace"),
    "repeats": ("bpf loops", "needs Linux 5.17; loops of much: --backend ftrace"),
    "mappings": ("bpf mappings", "needs Linux 5.17; names of what was loaded in turn at one address: --backend ftrace"),
    "user_registers": ("bpf user registers", "needs Linux 5.15; ustack at events of the kernel: --backend ftrace"),
    "long_keys": ("bpf long keys", "needs Linux 5.11; beyond 512 bytes: --backend ftrace"),
    "late_allocation": ("bpf late allocation", "needs Linux 6.1; maps take it at once"),
}
"""The capabilities to try if bpf() works, by their name in `disabled`: the name for `info`, and what happens without
it.
"""

_NUMBERED = frozenset({features.NUMBERS, features.USER_STACK, features.SYMBOL})
"""The features that need the number of the process that was hit."""


def capabilities(wanted: Collection[Feature] | None = None) -> Capabilities:
    """The table for this host, or only the part that the `wanted` features need."""
    failed = trials.bpf_error()
    binding = find_binding()
    if wanted is not None and not failed and isinstance(binding, Binding):
        return Capabilities("bcc", None if trials.has("ring") else NO_RING, _enough(wanted), {})
    from tracer.backends.bcc.host import follow
    from tracer.kernel.perf import uprobe_type

    facts = {"bpf": _bpf_fact(failed), "btf": "yes" if pid_namespace.has_btf() else "no"}
    facts["libbcc"] = (
        f"{binding.version} in {binding.folder}" if isinstance(binding, Binding) else f"no: {binding.reason}"
    )
    if isinstance(binding, Binding):
        facts["libbcc library"] = library_path() or "unknown"
    unusable = _unusable(failed)
    if unusable is None and not isinstance(binding, Binding):
        unusable = Unsupported(binding.reason, binding.hint)
    if failed:
        answer = "unknown" if failed != errno.ENOSYS else "no: the kernel has no bpf()"
        facts.update({fact: answer for fact, _ in _TRIALS.values()} | {"uprobe_multi": answer})
    else:
        facts |= {fact: _yes(trials.has(name), otherwise) for name, (fact, otherwise) in _TRIALS.items()}
        facts["uprobe_multi"] = _multi_fact()
        if unusable is None and not trials.has("ring"):
            unusable = NO_RING
    facts["uprobe pmu"] = _yes(uprobe_type() is not None, "needs Linux 4.17")
    facts["ref_ctr"] = _yes(trials.counts_semaphores(), "needs Linux 4.20")
    result = settled(states, _facts(failed))
    if not failed and (unable := follow.missing()) is not None:
        result[features.FOLLOW] = unable
    if not failed and (unable := pid_namespace.untold()) is not None:
        result[features.TASKS] = unable
    if not failed and (unable := pid_namespace.missing()) is not None:
        result |= dict.fromkeys(_NUMBERED, unable)
    return Capabilities("bcc", unusable, result, facts)


def _enough(wanted: Collection[Feature]) -> dict[Feature, State | None]:
    """The states of all features where BPF works, but with only those tried that may be refused and are wanted."""
    facts: dict[str, bool | None] = dict.fromkeys((*_TRIALS, "uprobe_multi", "task_newtask", "ref_ctr", "btf"), True)
    if features.SEMAPHORE in wanted:
        facts["ref_ctr"] = trials.counts_semaphores()
    if features.MAP_WALK in wanted:
        facts["walks"] = trials.has("walks")
    if features.STOPPED_STACK in wanted:
        facts["user_registers"] = trials.has("user_registers")
    if features.INTERPRETED in wanted:
        facts |= {"btf": pid_namespace.has_btf(), **{name: trials.has(name) for name in ("kernel_reads", "atomics")}}
    if features.KERNEL_MEMORY in wanted:
        facts["kernel_reads"] = trials.has("kernel_reads")
    result = settled(states, facts)
    if features.FOLLOW in wanted:
        from tracer.backends.bcc.host import follow

        result[features.FOLLOW] = follow.missing() or result[features.FOLLOW]
    if features.TASKS in wanted:
        result[features.TASKS] = pid_namespace.untold() or result[features.TASKS]
    if not _NUMBERED.isdisjoint(wanted) and (unable := pid_namespace.missing()) is not None:
        result |= dict.fromkeys(_NUMBERED, unable)
    return result


def _facts(failed: int) -> dict[str, bool | None]:
    """The kernel's abilities by name; None where only root can try one."""
    from tracer.backends.bcc.host import follow

    hidden = None if failed and failed != errno.ENOSYS and os.geteuid() != 0 else False
    return {
        **{name: hidden if failed else trials.has(name) for name in _TRIALS},
        "uprobe_multi": hidden if failed else trials.has_multi(False),
        "task_newtask": None if os.geteuid() != 0 else not failed and follow.missing() is None,
        "ref_ctr": trials.counts_semaphores(),
        "btf": pid_namespace.has_btf(),
    }


def _unusable(failed: int) -> Unsupported | None:
    if not failed:
        return None
    if failed == errno.ENOSYS:
        return NO_BPF
    if os.geteuid() != 0:
        return NEEDS_ROOT
    if failed == errno.EPERM:
        return Unsupported(
            "bpf() is not permitted, even for root",
            "a container needs --privileged, or --cap-add BPF,PERFMON,SYS_ADMIN; kernel lockdown may forbid it too",
        )
    return Unsupported(f"bpf() refuses: {os.strerror(failed)}", "see `man 2 bpf` for this error; ftrace needs no bpf()")


def _bpf_fact(failed: int) -> str:
    if not failed:
        return "yes"
    if failed == errno.ENOSYS:
        return "no: the kernel has no bpf()"
    return "unknown" if os.geteuid() != 0 else f"no: {os.strerror(failed)}"


def _yes(holds: bool, otherwise: str) -> str:
    return "yes" if holds else f"no: {otherwise}"


def _multi_fact() -> str:
    if trials.has_multi(False):
        return "yes" if trials.has_multi(True) else "yes, but for one process it sees one thread: perf events there"
    return "no: needs Linux 6.6; each site is attached on its own"
