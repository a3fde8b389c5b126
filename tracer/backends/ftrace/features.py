"""Derives the state of each feature from the kernel's ftrace capabilities."""

from __future__ import annotations

from tracer.lang import features
from tracer.lang.features import Feature
from tracer.plan.states import NO_COUNTER, Has, State, Supported, Unsupported, elsewhere

_USER_SPACE = Supported("in user space")
_TRIGGER = "in the kernel where the answer is the same, else in user space"
_SOME_BY_TRIGGER = f"{_TRIGGER}, as min, max and quantiles always"
_NO_OWNER = Unsupported("the kernel's events carry no user and group", elsewhere("bcc"))
_LATE = Unsupported("a hit is seen after the program has gone on, so a signal would come too late", elsewhere("bcc"))
_OF_PROGRAM = Unsupported(
    "perf's samples of system calls have the program's stack alone",
    "tracepoint:raw_syscalls:sys_enter and sys_exit have the kernel's too",
)
_NO_CGROUP = Unsupported("the kernel's events do not carry it", elsewhere("bcc"))
_NO_MEMORY = Unsupported("a sample does not hold the interpreter's memory, where the frames are", elsewhere("bcc"))
_INDEXED = Unsupported("a fetch argument cannot add an index register to an address", elsewhere("bcc"))
_COMPUTED = Unsupported(
    "it reads memory at argN, retval, or a pointer found there, plus a constant; not at a computed address",
    elsewhere("bcc"),
)
# Linux 6.18 refuses `$arg1` at the return of a uprobe: "$arg* can be used only on function entry or exit".
_AFTER = Unsupported(
    "at a return the kernel reads memory at registers of then, which no longer hold what the call began with",
    f"str(retval) reads what the function returns; {elsewhere('bcc')}",
)
_NARROW = Unsupported("a fetch argument takes 8 bytes of memory for a pointer", elsewhere("bcc"))

_SHORT = "a hit with one of 4,096 bytes or more is left out"
_UNBOUND = Unsupported(
    "the kernel may write past its buffer where the strings of a hit are near 4,000 bytes or more (CVE-2024-50067)",
    "use a repaired kernel: 6.1.115, 6.6.59, 6.12; or TRACER_UNSAFE_STRINGS=1 where no string comes near that",
)


def states(has: Has) -> dict[Feature, State]:
    """A state for every feature."""
    return {
        features.UPROBE: Supported(),
        features.URETPROBE: Supported(),
        features.SEMAPHORE: Supported("raised by the kernel") if has("ref_ctr") else NO_COUNTER,
        features.MANY_SITES: Supported("several in one event" if has("many") else "an event for each: slower"),
        features.PROCESS: Supported(
            "other processes are not trapped"
            if has("inherit_thread")
            else "its forks are trapped too, and their samples dropped"
        ),
        features.FOLLOW: Supported("other processes are trapped too; with -p their samples are dropped"),
        features.PREDICATE: Supported("in the kernel where its filter is exact, the rest in user space"),
        features.COUNT: Supported(_TRIGGER if has("hist") else "in user space; by a counter where there is no key"),
        features.AGGREGATION: Supported(_SOME_BY_TRIGGER) if has("hist") else _USER_SPACE,
        features.MAP: _USER_SPACE,
        features.EVENT: Supported("from samples in perf rings"),
        features.USER_SPACE: _USER_SPACE,
        features.MEMORY_INDEXED: _INDEXED,
        features.GLOBAL_INDEXED: _INDEXED,
        features.NUMBERS: Supported(),
        features.FIRST_NUMBERS: Unsupported("the kernel's events carry the numbers of the container", elsewhere("bcc")),
        features.UID: _NO_OWNER,
        features.STRING: Supported("" if has("format_lost") else _SHORT) if has("string_bounds") else _UNBOUND,
        features.STRING_COMPUTED: _COMPUTED,
        features.LOAD: Supported(),
        features.LOAD_COMPUTED: _COMPUTED,
        features.LOAD_AFTER: _AFTER,
        features.POINTER_32: _NARROW,
        features.BUFFER_SIZED: Unsupported("an event holds blocks of a fixed size", elsewhere("bcc")),
        features.USER_STACK: Supported(),
        features.KERNEL_STACK: Supported(),
        features.KERNEL_STACK_OF_CALLS: _OF_PROGRAM,
        features.KERNEL_MEMORY: Unsupported("an event holds no memory of the kernel", elsewhere("bcc")),
        features.STOPPED_STACK: Supported(),
        features.DEEP_STACK: Supported(),
        features.INTERPRETED: _NO_MEMORY,
        features.STACK_COMPUTED: Supported(),
        features.SYMBOL: Supported(),
        features.SIGNAL: _LATE,
        features.CGROUP: _NO_CGROUP,
        features.JIFFIES: _NO_CGROUP,
        features.TASKS: _NO_CGROUP,
        features.JOINS: Supported(),
        features.LOOP: Supported(),
        features.MAP_LENGTH: Supported(),
        features.MAP_WALK: Supported("as it was at the hit, in the order of the keys"),
        features.MAP_WALK_LARGE: Supported(),
        features.MAP_WALK_CHANGED: Supported("as it was at the hit"),
        features.LENGTH_FORGETS: Supported(),
        features.AGGREGATION_READ: Supported(),
        features.STRING_FUNCTIONS: Supported(),
        features.KEYS_OF_CLEARED: Supported(),
        features.SERIES_KEYS: Supported(),
        features.SHARED_AGGREGATION: Supported(),
    }
