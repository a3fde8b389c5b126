"""What `depot ROUNDS` does, computed: every hit of every probe in the program's order, and the memory they point to.

This is the arithmetic of tests/targets/depot.c. The contract's expected answers are computed from it, and its hits are
what the Python leg is fed with.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

U64 = 0xFFFF_FFFF_FFFF_FFFF
ROUNDS = 40

ITEMS = ("bolts", "copper wire", "glue", "étau", '3" "brass" nails')

TOUCHED, COLD, NULL, EMPTY, HUNDRED, HUGE, UTF8, QUOTED, NEWLINE = range(9)
LABELS: tuple[str | None, ...] = (
    "touched",
    "a page nobody touched",
    None,
    "",
    "".join(chr(ord("a") + i % 26) for i in range(100)),
    "".join(chr(ord("0") + i % 10) for i in range(2000)),
    "naïve café – ☕",
    "say \"hi\" \\ 'there'",
    "two\nlines\tand a tab",
)

PRICE = 0x401000
_ITEM_AT = 0x10000
_LABEL_AT = 0x20000
_CRATE_AT = 0x30000
_DEPOT_AT, _WORLD_AT = 0x40000, 0x41000


@dataclass(frozen=True)
class Hit:
    """One pass through a place. `where` is "provider:name" of a USDT probe, or a function's name; `returns` is set
    where the function is being left, and `offset` where the place lies behind its start. `args` are uint64.
    """

    where: str
    args: tuple[int, ...] = ()
    retval: int = 0
    returns: bool = False
    offset: int = 0


def signed(value: int, bits: int = 64) -> int:
    """The low bits of a value, read as a signed integer."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def u(value: int, bits: int = 64) -> int:
    """The low bits of a value."""
    return value & ((1 << bits) - 1)


@dataclass(frozen=True)
class Round:
    """The values of one round; `item` is the text."""

    id: int

    @property
    def zone(self) -> int:
        return self.id * 7 % 10

    @property
    def delta(self) -> int:
        return self.zone - 4

    @property
    def weight(self) -> int:
        return self.id * self.id % 97 * (self.zone + 1)

    @property
    def item(self) -> str:
        return ITEMS[self.id % 5]

    @property
    def widths(self) -> tuple[int, int, int, int, int, int, int, int]:
        """u8 s8 u16 s16 u32 s32 u64 s64, signed where they are."""
        small, middle, large = self.id * 37, self.id * 1021, self.id * 4000000007
        huge = self.id * 0xF123456789ABCDEF
        return (
            *(u(small, 8), signed(small, 8), u(middle, 16), signed(middle, 16)),
            *(u(large, 32), signed(large, 32), u(huge), signed(huge)),
        )

    @property
    def cell(self) -> int:
        index = self.id % 16
        return index * index - 50

    @property
    def sign(self) -> int:
        return (self.delta > 0) - (self.delta < 0)


def rounds(count: int = ROUNDS) -> list[Round]:
    """The rounds in their order."""
    return [Round(id) for id in range(1, count + 1)]


def memory() -> dict[int, bytes]:
    """What lies where: text with its NUL, and the one struct. Addresses are this file's own."""
    texts = {_ITEM_AT + 0x100 * i: item.encode() for i, item in enumerate(ITEMS)}
    texts |= {_LABEL_AT + 0x1000 * i: text.encode() for i, text in enumerate(LABELS) if text is not None}
    texts |= {_DEPOT_AT: b"depot", _WORLD_AT: b"world"}
    found = {address: text + b"\0" for address, text in texts.items()}
    crate = (-1234).to_bytes(4, "little", signed=True) + (50000).to_bytes(2, "little") + b"\xfd\0"
    found[_CRATE_AT] = crate + _WORLD_AT.to_bytes(8, "little")
    return found


@cache
def hits(count: int = ROUNDS) -> tuple[Hit, ...]:
    """Every hit of a run with `count` rounds."""
    found: list[Hit] = []
    for r in rounds(count):
        found += _round(r)
    for kind, text in enumerate(LABELS):
        found.append(Hit("depot:label", (kind, 0 if text is None else _LABEL_AT + 0x1000 * kind)))
    found += [
        Hit("depot:gauge", (count * 2, u(-5))),
        Hit("depot:fixed", (7, u(-7), 0x7FFFFFFFFFFFFFFE, 200)),
        Hit("depot:stray", (1, 8)),
        Hit("depot:wide", tuple(range(1, 13))),
        Hit("depot:callback", (PRICE,)),
        Hit("depot:move", (count * 2, u(-5))),
    ]
    found += _call("greet", (_DEPOT_AT, 2), ord("d") + 2) + _call("greet", (0, 3), 3)
    found += _call("weigh", (_CRATE_AT,), u(-1234, 32))
    six = (1000000007, u(-2, 32), u(-3, 32), u(-4, 32), U64, 4000000000)
    found += _call("six", six, u(1000000007 - 2 - 3 - 4 - 1 + 4000000000))
    found += [Hit("fact", (n,)) for n in (5, 4, 3, 2, 1)]
    found += [Hit("fact", retval=value, returns=True) for value in (1, 2, 6, 24, 120)]
    found += [Hit("landmark", (14,)), Hit("landmark", (14,), offset=1), Hit("landmark", (14,), offset=2)]
    found += [Hit("landmark", retval=42, returns=True)]
    found += [Hit("outer", (1,)), Hit("middle", (2,)), Hit("inner", (3,)), Hit("depot:nested", (3,))]
    found += [Hit("inner", returns=True), Hit("middle", returns=True), Hit("outer", returns=True)]
    return tuple(found)


def _round(r: Round) -> list[Hit]:
    index = r.id % 16
    return [
        Hit("round_of", (r.id,)),
        *_call("price", (r.id, r.zone), r.weight),
        Hit("depot:parcel", (r.id, _ITEM_AT + 0x100 * (r.id % 5), r.zone, r.weight, u(r.delta))),
        Hit("depot:widths", tuple(map(u, r.widths))),
        Hit("depot:move", (r.id, r.zone)),
        *([Hit("depot:move", (u(-1), 7))] if r.id % 10 == 0 else []),
        Hit("depot:cell", (index, u(r.cell))),
        Hit("depot:row", (index, u(r.cell))),
        *_call("sign_of", (u(r.delta, 32),), u(r.sign, 32)),
        Hit("plain", (r.id,)),
        Hit("depot:plain", (r.id,)),
        Hit("plain", returns=True),
        Hit("round_of", returns=True),
    ]


def _call(name: str, args: tuple[int, ...], retval: int) -> list[Hit]:
    return [Hit(name, args), Hit(name, retval=retval, returns=True)]
