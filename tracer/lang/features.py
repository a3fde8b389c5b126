"""A feature is an object for what a program can need of a backend; the constructs of the language name them.

Each backend has a state for each of them in its `features.py`; `tracer info` and the documentation show both.
"""

from __future__ import annotations

from typing import Final


class Feature:
    """Something that not every backend can do everywhere; `name` is what users see."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


UPROBE = Feature("uprobe")
URETPROBE = Feature("uretprobe")
SEMAPHORE = Feature("usdt semaphore")
MANY_SITES = Feature("probe with many sites")
PROCESS = Feature("-p, -c")
FOLLOW = Feature("--follow")
PREDICATE = Feature("predicate")
COUNT = Feature("count()")
AGGREGATION = Feature("sum, avg, min, max, stats, hist, lhist, quantiles")
MAP = Feature("@x = …, @x++, delete, clear, zero")
EVENT = Feature("printf, print, time, exit")
USER_SPACE = Feature("BEGIN, END, interval")
MEMORY_INDEXED = Feature("argument at base + index * scale")
GLOBAL_INDEXED = Feature("argument at symbol + index * scale")
NUMBERS = Feature("pid, tid")
FIRST_NUMBERS = Feature("pid(init), tid(init) in a container")
UID = Feature("uid, gid, username")
STRING = Feature("str")
STRING_COMPUTED = Feature("str of a computed address")
LOAD = Feature("reading memory through a pointer")
LOAD_COMPUTED = Feature("reading memory at a computed address")
LOAD_AFTER = Feature("reading memory behind an argument when the call has ended")
POINTER_32 = Feature("memory at a pointer of 32 bits that lies in memory")
BUFFER_SIZED = Feature("buf of a length known at the hit")
USER_STACK = Feature("ustack")
STOPPED_STACK = Feature("ustack at tracepoint, profile, software, hardware and watchpoint")
KERNEL_STACK = Feature("kstack")
KERNEL_STACK_OF_CALLS = Feature("kstack at tracepoint:syscalls")
KERNEL_MEMORY = Feature("curtask, reading memory of the kernel")
DEEP_STACK = Feature("more than 256 frames of a stack")
INTERPRETED = Feature("ustack(python)")
STACK_COMPUTED = Feature("a stack in a computation or in a key that is read")
SYMBOL = Feature("usym")
SIGNAL = Feature("signal, signal_thread")
CGROUP = Feature("cgroup")
JIFFIES = Feature("jiffies")
TASKS = Feature("ppid, pcomm, leader_comm")
JOINS = Feature("a second join in a clause")
LOOP = Feature("while")
MAP_LENGTH = Feature("len")
MAP_WALK = Feature("for over a map in a probe")
MAP_WALK_LARGE = Feature("for in a probe over a map that has room for more than 1,024 keys")
MAP_WALK_CHANGED = Feature("for over a map in a probe whose body writes other keys of it")
LENGTH_FORGETS = Feature("len in a probe of an LRU map")
AGGREGATION_READ = Feature("reading an aggregation in a probe")
STRING_FUNCTIONS = Feature("strlen, strcontains")
KEYS_OF_CLEARED = Feature("len, has_key, delete or for in a probe where probes clear or zero the map")
SERIES_KEYS = Feature("len, has_key or delete of a tseries() map in a probe")
SHARED_AGGREGATION = Feature("reading in a probe an aggregation that BEGIN or an interval fills")

FEATURES: Final = tuple(feature for feature in tuple(globals().values()) if isinstance(feature, Feature))
"""All, in the order in which they are shown."""
