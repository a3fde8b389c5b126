"""From the kernel's ftrace capabilities to the state of each feature."""

from __future__ import annotations

from tracer.plan.features import NO_COUNTER, Feature, Has, State, Supported, Unsupported, elsewhere

_USER_SPACE = Supported("in user space")
_TRIGGER = "in the kernel where the answer is the same, else in user space"
_NO_OWNER = Unsupported("the kernel's events carry no user and group", elsewhere("bcc"))
_LATE = Unsupported("a hit is seen after the program has gone on, so a signal would come too late", elsewhere("bcc"))
_NO_CGROUP = Unsupported("the kernel's events do not carry it", elsewhere("bcc"))
_NO_MEMORY = Unsupported("a sample does not hold the interpreter's memory, where the frames are", elsewhere("bcc"))
_INDEXED = Unsupported("a fetch argument cannot add an index register to an address", elsewhere("bcc"))
_COMPUTED = Unsupported(
    "it reads memory at argN, retval, or a pointer found there, plus a constant; not at a computed address",
    elsewhere("bcc"),
)

_SHORT = "a hit with one of 4,096 bytes or more is left out"
_UNBOUND = Unsupported(
    "the kernel may write past its buffer where the strings of a hit are near 4,000 bytes or more (CVE-2024-50067)",
    "use a repaired kernel: 6.1.115, 6.6.59, 6.12; or TRACER_UNSAFE_STRINGS=1 where no string comes near that",
)


def states(has: Has) -> dict[Feature, State]:
    """A state for every feature."""
    return {
        Feature.UPROBE: Supported(),
        Feature.URETPROBE: Supported(),
        Feature.SEMAPHORE: Supported("raised by the kernel") if has("ref_ctr") else NO_COUNTER,
        Feature.MANY_SITES: Supported("several in one event" if has("many") else "an event for each: slower"),
        Feature.PROCESS: Supported(
            "other processes are not trapped"
            if has("inherit_thread")
            else "its forks are trapped too, and their samples dropped"
        ),
        Feature.FOLLOW: Supported("other processes are trapped too; with -p their samples are dropped"),
        Feature.PREDICATE: Supported("in the kernel where its filter is exact, the rest in user space"),
        Feature.COUNT: Supported(_TRIGGER if has("hist") else "in user space; by a counter where there is no key"),
        Feature.AGGREGATION: Supported(f"{_TRIGGER}, as min, max and hist always") if has("hist") else _USER_SPACE,
        Feature.MAP: _USER_SPACE,
        Feature.EVENT: Supported("from samples in perf rings"),
        Feature.USER_SPACE: _USER_SPACE,
        Feature.MEMORY_INDEXED: _INDEXED,
        Feature.GLOBAL_INDEXED: _INDEXED,
        Feature.NUMBERS: Supported(),
        Feature.FIRST_NUMBERS: Unsupported("the kernel's events carry the numbers of the container", elsewhere("bcc")),
        Feature.UID: _NO_OWNER,
        Feature.STRING: Supported("" if has("format_lost") else _SHORT) if has("string_bounds") else _UNBOUND,
        Feature.STRING_COMPUTED: _COMPUTED,
        Feature.LOAD: Supported(),
        Feature.LOAD_COMPUTED: _COMPUTED,
        Feature.BUFFER_SIZED: Unsupported("an event holds blocks of a fixed size", elsewhere("bcc")),
        Feature.USER_STACK: Supported(),
        Feature.DEEP_STACK: Supported(),
        Feature.INTERPRETED: _NO_MEMORY,
        Feature.STACK_COMPUTED: Supported(),
        Feature.SYMBOL: Supported(),
        Feature.SIGNAL: _LATE,
        Feature.CGROUP: _NO_CGROUP,
        Feature.TASKS: _NO_CGROUP,
        Feature.JOINS: Supported(),
        Feature.LOOP: Supported(),
        Feature.MAP_LENGTH: Supported(),
        Feature.MAP_WALK: Supported("as it was at the hit, in the order of the keys"),
        Feature.MAP_WALK_LARGE: Supported(),
        Feature.MAP_WALK_CHANGED: Supported("as it was at the hit"),
        Feature.LENGTH_FORGETS: Supported(),
        Feature.AGGREGATION_READ: Supported(),
        Feature.STRING_FUNCTIONS: Supported(),
        Feature.KEYS_OF_CLEARED: Supported(),
        Feature.SERIES_KEYS: Supported(),
        Feature.SHARED_AGGREGATION: Supported(),
    }
