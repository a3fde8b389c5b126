"""What a backend can do on this host: the one table that `check`, `info` and the documentation read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Feature(Enum):
    """Something a program can need of a backend. The value is the name that users see (`tracer info`)."""

    UPROBE = "uprobe"
    URETPROBE = "uretprobe"
    SEMAPHORE = "usdt semaphore"
    MEMORY_INDEXED = "argument at base + index * scale"
    GLOBAL_INDEXED = "argument at symbol + index * scale"
    UID = "uid, gid, username"
    STRING = "str"
    STRING_COMPUTED = "str of a computed address"
    LOAD = "reading memory through a pointer"
    LOAD_COMPUTED = "reading memory at a computed address"
    USER_STACK = "ustack"
    SYMBOL = "usym"
    LOOP = "while"
    MAP_LENGTH = "len"
    MAP_ITERATION = "for over a map in a probe"
    AGGREGATION_READ = "reading an aggregation in a probe"
    STRING_FUNCTIONS = "strlen, strcontains"
    KEYS_OF_CLEARED = "len, has_key or delete in a probe where probes clear or zero the map"
    SHARED_AGGREGATION = "reading an aggregation in a probe that BEGIN or an interval fills"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Why not, and what to do about it."""

    reason: str
    hint: str | None = None


NO_COUNTER = Unsupported(
    "the kernel does not count semaphores (ref_ctr, Linux 4.20)",
    "--usdt-file-activation raises them in the processes that run now",
)
"""`Feature.SEMAPHORE`, on either backend."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one backend allows here.

    `unusable` is set where nothing works (no bpf(), no tracefs, not root). `missing` names the features it has not; a
    feature that is in neither is supported. `facts` are findings for `info`: name to "yes", "no: reason" or a value;
    what only root can see is "unknown".
    """

    backend: str
    unusable: Unsupported | None
    missing: Mapping[Feature, Unsupported]
    facts: Mapping[str, str]
