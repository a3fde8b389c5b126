"""What random programs are made of: numbers and texts at the edges, the probes of `depot`, maps.

`Kind` is "i" (an integer of some width and sign), "b" (bool), "s" (string) or a tuple of kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Union

Kind = Union[str, tuple["Kind", ...]]  # noqa: UP007 - recursive

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ARITHMETIC = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")
POINTERS = ("uint8 *", "int32 *", "int64 *", "void *")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
NUMBERS = (
    0, 1, 2, 3, 7, 8, 31, 63, 64, 65, 100, 127, 128, 255, 256, 32767, 65535, 65536,
    2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
TEXTS = (
    "", "a", "bolts", "copper", "copper wire", "glue", "o", "0123456789", "eight8ch", "sevench",
    "x" * 63, "y" * 64, "abcdefghijklmnopqrstuvwxyz" * 3, "z" * 255, "w" * 256,
)  # fmt: skip
SIZES = (65, 72, 100, 128, 256, 257, 300, 1024)
"""Values of max_strlen around which keys change their table."""


@dataclass(frozen=True)
class Place:
    """A probe: how it is written, its integer arguments, and its argument that points to a string."""

    probe: str
    ints: tuple[str, ...]
    text: str | None = None
    guard: str | None = None
    bytes: int = 4

    @property
    def user(self) -> bool:
        """Whether it runs in user space, where any map may be read at any time."""
        return self.probe in ("BEGIN", "END")


NUMERALS = ("0", "1", "2", "3", "9", "255", "(-1)", "(-4)", "(-128)")
USER_PLACES = (Place("BEGIN", NUMERALS), Place("END", NUMERALS))
PLACES = (
    Place("usdt:T:depot:parcel", ("arg0", "arg2", "arg3", "arg4"), "arg1"),
    Place("usdt:T:depot:parcel", ("arg0", "arg2", "arg3", "arg4"), "arg1"),
    Place("usdt:T:depot:widths", tuple(f"arg{i}" for i in range(8))),
    Place("usdt:T:depot:move", ("arg0", "arg1")),
    Place("usdt:T:depot:label", ("arg0",), "arg1", "arg0 != 1", 0),
    Place("usdt:T:depot:label", ("arg0",), "arg1", "arg0 > 3 && arg0 != 5"),
    Place("usdt:T:depot:fixed", ("arg0", "arg1", "arg2", "arg3")),
    Place("usdt:T:depot:wide", tuple(f"arg{i}" for i in range(12))),
    Place("usdt:T:depot:gauge", ("arg0", "arg1")),
    Place("uprobe:T:six", ("arg0", "(int32)arg1", "(uint16)arg2", "(int8)arg3", "arg4", "(uint32)arg5")),
    Place("uprobe:T:price", ("(int32)arg0", "(uint32)arg1")),
    Place("uretprobe:T:price", ("retval",)),
    Place("uretprobe:T:sign_of", ("(int32)retval", "(uint8)retval")),
    Place("uretprobe:T:fact", ("retval",)),
)


@dataclass
class Map:
    """A map: the kinds of its key's parts with the types they are cast to, and what it holds. A `quiet` one is only
    added to by probes, with keys that are mostly bounded.
    """

    name: str
    key: tuple[Kind, ...]
    key_types: tuple[str, ...]
    holds: str  # "int64", "uint64", one of POINTERS, "s", "t", or an aggregation
    size: int = 64
    tuple: Kind = ()
    quiet: bool = False


class Dice(Random):
    """Throws that a seed decides."""

    def chance(self, percent: int) -> bool:
        return self.randrange(100) < percent

    def pick(self, *items: str) -> str:
        return self.choice(items)
