"""Derives the state of each feature from the kernel's BPF capabilities."""

from __future__ import annotations

from tracer.kinds.arch import X86_64, native
from tracer.lang import features
from tracer.lang.features import Feature
from tracer.plan.states import NO_COUNTER, Has, State, Supported, Unsupported, elsewhere

NO_BPF = Unsupported(
    "the kernel has no bpf(), or something like a container's seccomp filter hides it",
    "allow bpf() there, or boot a kernel with CONFIG_BPF_SYSCALL",
)
NO_RING = Unsupported("the kernel has no BPF ring buffer", "use Linux 5.8 or newer")
NO_NEW_TASK = Unsupported("the kernel has no tracepoint task:task_newtask", elsewhere("ftrace"))

_LOCKED = Unsupported("BPF programs may not read the kernel's memory here (lockdown)", "boot without lockdown")
_NO_TASKS = Unsupported(
    "BPF may not read the kernel's memory here, or the kernel has no BTF that says where this value is",
    "/proc/PID/status shows it for a running process",
)
_IN_KERNEL = Supported("in the kernel")
_MACHINE_WIDE = Supported("other processes are trapped too, and go on at once")
_KEYS = "BPF programs cannot see all keys of a map, and user space removes what they clear"
_NO_WALK = Unsupported("the kernel has no walk over a map for BPF programs", "use Linux 5.13 or newer")
_WALKED = "in the kernel's order, and it sees what others change meanwhile"
_LARGE = "each hit visits the room for every key, 20 ns each"
_CHANGED = "BPF programs walk the map itself, not a copy, so they may or may not meet new keys"
_FORGETS = "the kernel does not say which keys it has dropped"
_JOINS = "the compiler and the kernel's verifier would take minutes each"
_DEEP = "the kernel's verifier takes a walk of 256 frames at most"
_STACKS = (
    "the calls on a stack may be known only after the hit; @[ustack] = count() counts stacks,"
    " stack_unwind = fp walks them at the hit"
)
_NO_REGISTERS = Unsupported(
    "BPF programs are not given the registers of the program that is stopped (bpf_task_pt_regs, Linux 5.15)",
    elsewhere("ftrace"),
)
_IN_TURN = "names of what is loaded in turn at one address can be mistaken"
_NO_THREADS = "finding the interpreter's thread needs BTF, and BPF that may read the kernel's memory"
_NO_NUMBERS = "BPF programs cannot number Python's functions (atomics, Linux 5.12)"
_ONLY_X86 = "finding the interpreter's thread is supported on x86-64 only"
_SHARED = "BPF programs do not see what is aggregated in user space"


def states(has: Has) -> dict[Feature, State]:
    """A state for every feature."""
    cold = "" if has("sleepable") else "data on a page that is not in memory is counted as unreadable"
    read = Supported(but=cold)
    keys = () if has("long_keys") else ("no keys of more than 512 bytes",)
    aggregation = (*(() if has("atomics") else ("no min, max, quantiles",)), *keys)
    map = (*(() if has("atomics") else ("no ++ as a value",)), *keys)
    in_maps = "in the kernel" if has("late_allocation") else "in the kernel, in memory allocated at the start"
    return {
        features.UPROBE: Supported(),
        features.URETPROBE: Supported(),
        features.SEMAPHORE: Supported("raised by the kernel") if has("ref_ctr") else NO_COUNTER,
        features.MANY_SITES: Supported("one link for all" if has("uprobe_multi") else "several in one event: slower"),
        features.PROCESS: Supported("other processes are not trapped"),
        features.FOLLOW: _MACHINE_WIDE if has("task_newtask") else NO_NEW_TASK,
        features.PREDICATE: _IN_KERNEL,
        features.COUNT: _IN_KERNEL,
        features.AGGREGATION: Supported(in_maps, "; ".join(aggregation)),
        features.MAP: Supported(in_maps, "; ".join(map)),
        features.EVENT: Supported("through a BPF ring buffer"),
        features.USER_SPACE: Supported("in user space"),
        features.MEMORY_INDEXED: Supported(),
        features.GLOBAL_INDEXED: Supported(),
        features.NUMBERS: Supported(but="" if has("btf") else "not in a pid namespace of its own (a container)"),
        features.FIRST_NUMBERS: Supported(),
        features.UID: Supported(),
        features.STRING: read,
        features.STRING_COMPUTED: read,
        features.LOAD: read,
        features.LOAD_COMPUTED: read,
        features.LOAD_AFTER: read,
        features.POINTER_32: read,
        features.BUFFER_SIZED: read,
        features.USER_STACK: Supported(but="" if has("mappings") else _IN_TURN),
        features.KERNEL_STACK: Supported(),
        features.KERNEL_STACK_OF_CALLS: Supported(),
        features.KERNEL_MEMORY: Supported() if has("kernel_reads") else _LOCKED,
        features.STOPPED_STACK: Supported() if has("user_registers") else _NO_REGISTERS,
        features.DEEP_STACK: Unsupported(_DEEP, elsewhere("ftrace")),
        features.INTERPRETED: _interpreted(has),
        features.STACK_COMPUTED: Unsupported(_STACKS, elsewhere("ftrace")) if native() is X86_64 else Supported(),
        features.SYMBOL: Supported(but="" if has("mappings") else _IN_TURN),
        features.SIGNAL: Supported("from the hit itself"),
        features.CGROUP: Supported(),
        features.JIFFIES: Supported(),
        features.TASKS: Supported() if has("btf") and has("kernel_reads") else _NO_TASKS,
        features.JOINS: Unsupported(_JOINS, "write a clause for each, or --backend ftrace"),
        features.LOOP: Supported(),
        features.MAP_LENGTH: Supported(),
        features.MAP_WALK: Supported(_WALKED) if has("walks") else _NO_WALK,
        features.MAP_WALK_LARGE: Supported(but=_LARGE, slow=_LARGE),
        features.MAP_WALK_CHANGED: Unsupported(_CHANGED, elsewhere("ftrace")),
        features.LENGTH_FORGETS: Unsupported(_FORGETS, elsewhere("ftrace")),
        features.AGGREGATION_READ: Supported(),
        features.STRING_FUNCTIONS: Supported(),
        features.KEYS_OF_CLEARED: Unsupported(_KEYS, elsewhere("ftrace")),
        features.SERIES_KEYS: Unsupported("user space keeps the values of tseries()", elsewhere("ftrace")),
        features.SHARED_AGGREGATION: Unsupported(_SHARED, elsewhere("ftrace")),
    }


def _interpreted(has: Has) -> State:
    if native() is not X86_64:
        return Unsupported(_ONLY_X86)
    if not (has("btf") and has("kernel_reads")):
        return Unsupported(_NO_THREADS, "use a kernel with CONFIG_DEBUG_INFO_BTF that is not locked down")
    return Supported("CPython 3.8 to 3.14") if has("atomics") else Unsupported(_NO_NUMBERS, "use Linux 5.12 or newer")
