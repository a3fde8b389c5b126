"""What a backend can do on this host: the one table that `check`, `info` and the documentation read.

Each backend has a function from what it has found of the kernel to a state for every feature. The names of the findings
are those by which they can be switched off (`kernel.disabled`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from tracer.dataclass import dataclass


class Feature(Enum):
    """Something a program can need of a backend. The value is the name that users see (`tracer info`)."""

    UPROBE = "uprobe"
    URETPROBE = "uretprobe"
    SEMAPHORE = "usdt semaphore"
    MANY_SITES = "probe with many sites"
    PROCESS = "-p, -c"
    FOLLOW = "--follow"
    PREDICATE = "predicate"
    COUNT = "count()"
    AGGREGATION = "sum, avg, min, max, stats, hist, lhist"
    MAP = "@x = …, @x++, delete, clear, zero"
    EVENT = "printf, print, time, exit"
    USER_SPACE = "BEGIN, END, interval"
    MEMORY_INDEXED = "argument at base + index * scale"
    GLOBAL_INDEXED = "argument at symbol + index * scale"
    NUMBERS = "pid, tid"
    FIRST_NUMBERS = "pid(init), tid(init) in a container"
    UID = "uid, gid, username"
    STRING = "str"
    STRING_COMPUTED = "str of a computed address"
    LOAD = "reading memory through a pointer"
    LOAD_COMPUTED = "reading memory at a computed address"
    BUFFER_SIZED = "buf of a length known at the hit"
    USER_STACK = "ustack"
    DEEP_STACK = "more than 256 frames of a stack"
    INTERPRETED = "ustack(python)"
    STACK_COMPUTED = "a stack in a computation or in a key that is read"
    SYMBOL = "usym"
    SIGNAL = "signal, signal_thread"
    CGROUP = "cgroup"
    TASKS = "ppid, pcomm, leader_comm"
    JOINS = "a second join in a clause"
    LOOP = "while"
    MAP_LENGTH = "len"
    MAP_WALK = "for over a map in a probe"
    MAP_WALK_LARGE = "for in a probe over a map that has room for more than 1,024 keys"
    MAP_WALK_CHANGED = "for over a map in a probe whose body writes other keys of it"
    LENGTH_FORGETS = "len in a probe of an LRU map"
    AGGREGATION_READ = "reading an aggregation in a probe"
    STRING_FUNCTIONS = "strlen, strcontains"
    KEYS_OF_CLEARED = "len, has_key, delete or for in a probe where probes clear or zero the map"
    SERIES_KEYS = "len, has_key or delete of a tseries() map in a probe"
    SHARED_AGGREGATION = "reading in a probe an aggregation that BEGIN or an interval fills"


@dataclass(frozen=True, slots=True)
class Supported:
    """It works. `how` says how, `but` what is missing ("partly"), `slow` why another backend that can do it is
    preferred when the user names none.
    """

    how: str = ""
    but: str = ""
    slow: str = ""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """It does not work: the reason and the remedy."""

    reason: str
    hint: str | None = None


State = Supported | Unsupported

Has = Callable[[str], bool]
"""Whether the kernel has a feature, a key of `disabled.KNOWN`."""

NEEDS_ROOT = Unsupported("tracing needs root", "run it with sudo")

NO_COUNTER = Unsupported(
    "the kernel does not count semaphores (ref_ctr, Linux 4.20)",
    "--usdt-file-activation raises them in the processes that run now",
)
"""`Feature.SEMAPHORE`, on either backend."""


def elsewhere(backend: str) -> str:
    """The remedy that names the other backend; `choose` replaces it if that cannot be used either."""
    return f"--backend {backend} can"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one backend allows here.

    `unusable` is set where nothing works (no bpf(), no tracefs, not root). `features` has a state for each feature,
    None where only root can tell; one that is not in it is supported. `facts` are findings for `info`: name to "yes",
    "no: reason" or a value; what only root can see is "unknown".
    """

    backend: str
    unusable: Unsupported | None
    features: Mapping[Feature, State | None]
    facts: Mapping[str, str]

    @property
    def missing(self) -> dict[Feature, Unsupported]:
        """The features that are missing."""
        return {feature: state for feature, state in self.features.items() if isinstance(state, Unsupported)}


def settled(
    states: Callable[[Has], Mapping[Feature, State]], found: Mapping[str, bool | None]
) -> dict[Feature, State | None]:
    """The states that follow from what was found; None where they depend on something that is None, not known."""
    best, worst = states(lambda name: found[name] is not False), states(lambda name: bool(found[name]))
    return {feature: _common(state, worst[feature]) for feature, state in best.items()}


def _common(best: State, worst: State) -> State | None:
    if best == worst:
        return best
    same = isinstance(best, Supported) and isinstance(worst, Supported) and best.but == worst.but
    return Supported() if same else None
