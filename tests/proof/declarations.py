"""What random programs are made of: types, variables, maps, sites and the places of their arguments."""

from __future__ import annotations

import random

from tests.proof.world import EDGES, REGISTERS
from tests.typed_ir import N, map_of
from tracer.dataclass import replace
from tracer.kinds.site import (
    ArgSpec,
    Const,
    FileIdentity,
    FileSite,
    Global,
    GlobalPointer,
    Mem,
    Operand,
    Reg,
    Unreadable,
)
from tracer.lang import typed
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    ArrayType,
    CharType,
    EnumType,
    Field,
    FloatType,
    IntType,
    PointerType,
    StackType,
    StringType,
    StructType,
    SymbolType,
    TimestampType,
    TupleType,
    Type,
    UsernameType,
)

INTS = [INT64, UINT64, INT64, UINT64, *(IntType(bits, signed) for bits in (32, 16, 8) for signed in (True, False))]
_CODES = EnumType(32, False, "enum code", (("NONE", 0), ("SOME", 7)))
_BYTES = ArrayType(IntType(8, False), 4)
_TRIPLE = ArrayType(IntType(32, True), 3)
_PAIR = StructType(
    "struct pair", 16, (Field("a", IntType(32, True), 0), Field("b", IntType(8, False), 4), Field("c", UINT64, 8))
)
_NAMED = StructType(
    "struct named", 28,
    (Field("of", _PAIR, 0), Field("name", ArrayType(CharType(), 5), 16), Field("bytes", _BYTES, 22)),
)  # fmt: skip
BLOCKS: list[ArrayType | StructType] = [
    _BYTES, _TRIPLE, _PAIR, _NAMED, ArrayType(INT64, 2), ArrayType(UINT64, 20), ArrayType(_PAIR, 2),
]  # fmt: skip
"""Of the last but one BPF's stack holds few."""
_SIZES = [4, 8, 16, 64, 72, 200]
_NAMES = [("uprobe:/bin/shop:sell", "sell"), ("usdt:/bin/shop:shop:order", "take_order"), ("uprobe:/bin/shop:a", "")]


class Declarations:
    """Those of one program. `points` are addresses worth reading at."""

    def __init__(self, rng: random.Random, points: list[int]) -> None:
        self.rng = rng
        self.points = points
        self.few = rng.random() < 0.3
        """Maps hold two keys: they are then such that take no more in the kernel either."""
        self.sizes = rng.sample(_SIZES, 2)
        self.slots: list[Type] = [INT64, UINT64, *(self.type(2) for _ in range(rng.randrange(4)))]
        self.maps = [self.declared(number) for number in range(rng.randint(1, 4))]
        self.sites = self.places()
        float = self.sites[0].args[2].is_float
        self.float = typed.Arg(FloatType(8 * self.sites[0].args[2].size), N, 2) if float else None
        self.args = [self.argument(index) for index in range(2 if float else 3)]
        self.texts: list[typed.Str] = []

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def type(self, depth: int) -> Type:
        """A type that a variable, a scalar map or a part of a key can have."""
        kind = self.rng.random()
        if kind < 0.5:
            return self.rng.choice(INTS)
        if kind < 0.55:
            return self.rng.choice([_CODES, PointerType(target=INT64)])
        if kind < 0.75:
            return StringType(self.rng.choice(self.sizes))
        if kind < 0.83 or not depth:
            return BOOL
        if kind < 0.92:
            return self.rng.choice(BLOCKS)
        items = tuple(self.type(0) for _ in range(self.rng.randint(1, 3)))
        return TupleType(items, tuple("xyz"[: len(items)]) if self.chance(0.3) else ())

    def key_part(self) -> Type:
        other: list[Type] = [SymbolType(), StackType(3), UsernameType(), TimestampType("%H:%M")]
        found = self.type(1) if self.chance(0.85) else self.rng.choice(other)
        return StringType(8) if self.few and isinstance(found, StringType) else found

    def declared(self, number: int) -> typed.MapDecl:
        key = tuple(self.key_part() for _ in range(self.rng.choice([0, 0, 1, 1, 1, 2, 3])))
        value = self.rng.choice([INT64, UINT64])
        # A time series takes the time of its hit beside the value.
        kept = {name: each for name, each in AGGREGATIONS.items() if not each.kept.in_user_space}
        kinds = ["scalar"] * 4 + [name for name, each in kept.items() if each.single or not (self.few and key)]
        kind = self.rng.choice(kinds)
        name = f"@m{number}"
        match kind:
            case "scalar":
                return map_of(name, kind, *key, value=self.type(1) if self.chance(0.5) else value)
            case "hist":
                return map_of(name, kind, *key, value=value, parameters=(self.rng.choice([0, 0, 3]),))
            case "quantiles":
                return map_of(name, kind, *key, value=value, parameters=(self.rng.choice([3, 5]), 50_000_000))
            case "lhist":
                return map_of(name, kind, *key, value=INT64, parameters=(-10, 11, 4))
            case "count":
                return map_of(name, kind, *key)
        return map_of(name, kind, *key, value=value)

    def places(self) -> tuple[FileSite, ...]:
        layouts = [tuple(self.place() for _ in range(3)) for _ in range(self.rng.choice([1, 1, 1, 2]))]
        names = self.rng.sample(_NAMES, self.rng.choice([1, 1, 2]))
        if self.chance(0.1):
            size = self.rng.choice([4, 8])
            layouts = [
                (*layout[:2], replace(layout[2], size=size, signed=False, is_float=True)) for layout in layouts
            ]
        file = FileIdentity(0, 0, 0, 0)
        return tuple(
            FileSite("uprobe", *names[number % len(names)], layout, 0, "/bin/shop", file, 64 * number, 64 * number)
            for number, layout in enumerate(layouts * len(names))
        )

    def place(self) -> ArgSpec:
        size = self.rng.choice([8, 8, 8, 8, 4, 4, 2, 1])
        first, second = self.rng.sample(REGISTERS, 2)
        shift = self.rng.choice([0, 8, -8, 16])
        slot = Global(0, 0, shift)
        operands: list[Operand] = [
            Mem(first, shift), Mem(None, self.rng.choice(self.points)), Mem(first, shift, second, 8), slot,
            Global(0, 0, 8, first, 2), GlobalPointer(slot), Unreadable("a test"), Const(self.rng.choice(EDGES)),
        ]  # fmt: skip
        operand = Reg(first) if self.chance(0.8) else self.rng.choice(operands)
        return ArgSpec("", size, self.chance(0.4), operand)

    def argument(self, index: int) -> typed.Arg:
        signed = any(site.args[index].signed for site in self.sites)
        return typed.Arg(INT64 if signed else UINT64, N, index)
