"""Random typed expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.proof.declarations import BLOCKS, INTS, Declarations
from tests.proof.world import EDGES, cut_to
from tests.typed_ir import N, builtin, num, text
from tracer.lang import typed
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.builtins.registry import FUNCTIONS
from tracer.lang.constructs import BuiltinFunction, Call
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    ArrayType,
    BoolType,
    IntType,
    StackType,
    StringType,
    StructType,
    SymbolType,
    TimestampType,
    TupleType,
    Type,
    memory_size,
)

ARITHMETIC = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]
_LITERALS = [
    b"", b"a", b"ab", b"abc", b"abcdefgh", b"shop", b"b", b"\xff'\"\\", b"fifteen letters", b"x" * 63, b"x" * 80,
]  # fmt: skip
_MAKING = [
    function
    for function in FUNCTIONS.values()
    if function.fold and function.shown == "string" and {argument.kind for argument in function.args} == {"string"}
]
"""Functions that make strings of strings."""
_CALLED = [
    function
    for function in FUNCTIONS.values()
    if function.fold and function.lower and function.name != "strcap" and function not in _MAKING
    and isinstance(function.type, (IntType, BoolType, type(None)))
    and all(argument.kind in ("string", "integer", "unsigned") for argument in function.args)
]  # fmt: skip
"""Those without a node of their own that take nothing but values and give numbers; strcap takes the size of a type
beside its string.
"""


class Expressions(Declarations):
    """Those of one program; `depth` says how deep they may be."""

    def expr(self, type: Type, depth: int) -> typed.Expr:
        match type:
            case IntType():
                return self.integer(type, depth)
            case StringType():
                return self.fitting(type, self.string(type, depth))
            case BoolType():
                return self.truth(depth)
            case TupleType():
                return self.tuple(type, depth)
            case ArrayType() | StructType():
                return self.block(type, depth)
            case SymbolType():
                return typed.USym(type, N, self.address(depth))
            case StackType():
                return typed.UStack(type, N)
            case TimestampType():
                return typed.Strftime(type, N, self.integer(UINT64, depth))
        return typed.Builtin(type, N, "username")

    def variable(self, type: Type) -> typed.Expr | None:
        slots = [slot for slot, held in enumerate(self.slots) if held == type]
        return typed.Var(type, N, self.rng.choice(slots), "$v") if slots else None

    def read(self, type: Type, depth: int) -> typed.Expr | None:
        """Of a map."""
        found = []
        for decl in self.maps:
            aggregation = AGGREGATIONS.get(decl.kind)
            if aggregation is None or (aggregation.single and aggregation.args):
                held = decl.value
            else:
                held = INT64
            if held == type and (aggregation is None or aggregation.single):
                found.append(decl)
        if not found:
            return None
        decl = self.rng.choice(found)
        return typed.MapGet(type, N, decl.name, self.key(decl, depth))

    def item(self, type: Type, depth: int) -> typed.Expr | None:
        """Out of a tuple."""
        around = [held for held in self.slots if isinstance(held, TupleType) and type in held.items]
        whole = self.rng.choice(around) if around else TupleType((INT64, type))
        return typed.TupleItem(type, N, self.tuple(whole, depth), whole.items.index(type))

    def key(self, decl: typed.MapDecl, depth: int) -> tuple[typed.Expr, ...]:
        return tuple(self.of_key(part, min(depth, 1)) for part in decl.key)

    def of_key(self, type: Type, depth: int) -> typed.Expr:
        """A part of a key: often one of few."""
        if self.chance(0.5):
            if isinstance(type, IntType) and self.chance(0.7):
                return num(cut_to(self.rng.choice([0, 1, -1, 200]), type.bits, type.signed), type)
            if isinstance(type, IntType):
                mask = num(3, type)
                return typed.Binary(type, N, "&", self.integer(type, depth), mask)
            if isinstance(type, StringType) and self.chance(0.5):
                return self.fitting(type, self.literal(type))
        return self.expr(type, depth)

    def integer(self, type: IntType, depth: int) -> typed.Expr:
        choices: list[Callable[[], typed.Expr | None]] = [
            lambda: self.number(type),
            lambda: self.variable(type),
            lambda: self.variable(type),
            lambda: self.as_type(type, self.rng.choice(self.args)),
            lambda: self.as_type(type, self.rng.choice(self.args)),
            lambda: self.built_in(type),
        ]
        if depth > 0:
            below = depth - 1
            choices += [
                lambda: typed.Unary(type, N, self.rng.choice("-~"), self.integer(type, below)),
                lambda: self.arithmetic(type, below),
                lambda: self.arithmetic(type, below),
                lambda: typed.Ternary(
                    type, N, self.condition(below), self.integer(type, below), self.integer(type, below)
                ),
                lambda: typed.Cast(type, N, self.integer(self.rng.choice(INTS), below)),
                lambda: typed.Cast(type, N, self.truth(below)),
                lambda: typed.Load(type, N, self.address(below)),
                lambda: typed.Load(type, N, self.address(below)),
                lambda: self.read(type, below),
                lambda: self.read(type, below),
                lambda: self.item(type, below),
                lambda: self.part(type, below),
                lambda: self.part(type, below),
                lambda: self.part(type, below),
                lambda: self.increment(type, below),
                lambda: self.increment(type, below),
                lambda: self.as_type(type, self.of_strings(below)),
                lambda: self.as_type(type, typed.MapLen(UINT64, N, self.rng.choice(self.maps).name)),
            ]
        return self.first(choices, lambda: self.number(type))

    def first(
        self, choices: list[Callable[[], typed.Expr | None]], otherwise: Callable[[], typed.Expr]
    ) -> typed.Expr:
        return self.rng.choice(choices)() or otherwise()

    def as_type(self, type: IntType, inner: typed.Expr) -> typed.Expr:
        return inner if inner.type == type else typed.Cast(type, N, inner)

    def number(self, type: IntType) -> typed.Expr:
        return num(cut_to(self.rng.choice(EDGES), type.bits, type.signed), type)

    def built_in(self, type: IntType) -> typed.Expr:
        names = ["pid", "tid", "uid", "gid", "cpu", "nsecs", "elapsed", "cpid", "retval"]
        name = self.rng.choice(names)
        return self.as_type(type, typed.Retval(UINT64, N) if name == "retval" else builtin(name))

    def arithmetic(self, type: IntType, depth: int) -> typed.Expr:
        left, right = self.integer(type, depth), self.integer(type, depth)
        return typed.Binary(type, N, self.rng.choice(ARITHMETIC), left, right)

    def increment(self, type: IntType, depth: int) -> typed.Expr | None:
        delta, prefix = self.rng.choice([1, -1]), self.chance(0.5)
        maps = [decl for decl in self.maps if decl.kind == "scalar" and decl.value == type]
        if maps and self.chance(0.5):
            decl = self.rng.choice(maps)
            return typed.MapIncr(type, N, decl.name, self.key(decl, depth), delta, prefix)
        held = self.variable(type)
        return typed.VarIncr(type, N, held.slot, delta, prefix) if isinstance(held, typed.Var) else None

    def of_strings(self, depth: int) -> typed.Expr:
        one, other = self.pair(depth)
        if self.chance(0.4):
            return self.call(self.rng.choice(_CALLED), depth)
        if self.chance(0.5):
            return typed.Call(UINT64, N, "strlen", (one,))
        length = num(self.rng.choice([0, 1, 3, 4, 8, 9, 64, 100]))
        return typed.Call(UINT64, N, "strncmp", (one, other, length))

    def call(self, function: BuiltinFunction, depth: int) -> typed.Expr:
        args = [
            self.string(StringType(self.rng.choice(self.sizes)), depth) if argument.kind == "string"
            else self.integer(UINT64 if argument.kind == "unsigned" else self.rng.choice(INTS), depth)
            for argument in function.args
        ]  # fmt: skip
        return self.made(function, args)

    def made(self, function: BuiltinFunction, args: list[typed.Expr]) -> typed.Expr:
        if function.rule is None:
            assert function.type is not None
            return typed.Call(function.type, N, function.name, tuple(args))
        nothing: Any = None  # the rules of these look at the arguments alone
        made = function.rule(Call(nothing, function.name, N, args, [N] * len(args)))
        assert isinstance(made, typed.Expr)
        return made

    def pair(self, depth: int) -> tuple[typed.Expr, typed.Expr]:
        kinds = [StringType(self.rng.choice(self.sizes)) for _ in range(2)]
        return self.string(kinds[0], depth), self.string(kinds[1], depth)

    def address(self, depth: int) -> typed.Expr:
        """Where there may be something."""
        choices: list[Callable[[], typed.Expr | None]] = [
            lambda: self.as_type(UINT64, self.rng.choice(self.args)),
            lambda: self.as_type(UINT64, self.rng.choice(self.args)),
            lambda: self.variable(UINT64),
            lambda: typed.Retval(UINT64, N),
            lambda: num(self.rng.choice(self.points), UINT64),
        ]
        if depth > 0:
            shift = num(self.rng.choice([0, 1, 8, 16, 128]), UINT64)
            choices += [
                lambda: typed.Binary(UINT64, N, self.rng.choice("+-"), self.address(depth - 1), shift),
                lambda: typed.Binary(UINT64, N, self.rng.choice("+-"), self.address(depth - 1), shift),
                lambda: typed.Load(UINT64, N, self.address(depth - 1)),
                lambda: typed.Load(UINT64, N, self.address(depth - 1)),
                lambda: typed.Ternary(
                    UINT64, N, self.condition(depth - 1), self.address(depth - 1), self.address(depth - 1)
                ),
                lambda: self.integer(UINT64, depth - 1),
            ]
        return self.first(choices, lambda: num(self.rng.choice(self.points), UINT64))

    def truth(self, depth: int) -> typed.Expr:
        if depth <= 0:
            held = self.variable(BOOL)
            return held if held is not None and self.chance(0.5) else typed.BoolLit(BOOL, N, self.chance(0.5))
        below = depth - 1
        match self.rng.randrange(10):
            case 0 | 1 | 2:
                type = self.rng.choice(INTS)
                sides = self.integer(type, below), self.integer(type, below)
                return typed.Binary(BOOL, N, self.rng.choice(COMPARISONS), *sides)
            case 3:
                one, other = self.pair(below)
                wider = max((one.type, other.type), key=lambda each: getattr(each, "size", 0))
                sides = self.fitting(wider, one), self.fitting(wider, other)
                return typed.Binary(BOOL, N, self.rng.choice(["==", "!="]), *sides)
            case 4:
                whole = TupleType((self.type(0), self.type(0)))
                sides = self.tuple(whole, below), self.tuple(whole, below)
                return typed.Binary(BOOL, N, self.rng.choice(["==", "!="]), *sides)
            case 5:
                sides = self.condition(below), self.condition(below)
                return typed.Binary(BOOL, N, self.rng.choice(["&&", "||"]), *sides)
            case 6:
                return typed.Unary(BOOL, N, "!", self.condition(below))
            case 7:
                decl = self.rng.choice(self.maps)
                return typed.HasKey(BOOL, N, decl.name, self.key(decl, below))
            case 8:
                block = self.rng.choice(BLOCKS)
                sides = self.block(block, below), self.block(block, below)
                return typed.Binary(BOOL, N, self.rng.choice(["==", "!="]), *sides)
            case 9:
                pattern = self.rng.choice([b"*", b"a*", b"*b?", b"?*e*h", b"[a-z0-9]*[!x]", b"", b"sev*", b"*[^a-h]"])
                return typed.Call(BOOL, N, "globmatch", (self.pair(below)[0], text(pattern)))
        return typed.Call(BOOL, N, "strcontains", self.pair(below))

    def block(self, type: ArrayType | StructType, depth: int) -> typed.Expr:
        """A struct or array: read, packed, kept, or out of another."""
        choices: list[Callable[[], typed.Expr | None]] = [
            lambda: self.variable(type),
            lambda: self.packed(type, depth - 1),
            lambda: self.packed(type, depth - 1),
            lambda: typed.Load(type, N, self.address(depth - 1)),
            lambda: typed.Load(type, N, self.address(depth - 1)),
        ]
        if depth > 0:
            choices += [
                lambda: self.read(type, depth - 1),
                lambda: self.item(type, depth - 1),
                lambda: self.part(type, depth - 1),
                lambda: typed.Ternary(
                    type, N, self.condition(depth - 1), self.block(type, depth - 1), self.block(type, depth - 1)
                ),
            ]
        return self.first(choices, lambda: typed.Load(type, N, self.address(0)))

    def packed(self, type: ArrayType | StructType, depth: int) -> typed.Expr | None:
        """Integers as an array."""
        if isinstance(type, StructType) or not isinstance(type.item, IntType) or type.count > 4:
            return None
        if memory_size(type) == 4 and self.chance(0.5):
            return typed.Pack(type, N, (self.integer(IntType(32, self.chance(0.5)), depth),))
        return typed.Pack(type, N, tuple(self.integer(type.item, depth) for _ in range(type.count)))

    def part(self, type: Type, depth: int) -> typed.Expr | None:
        """What lies in a struct or an array, by a place that is known before or at the hit."""
        found: list[tuple[ArrayType | StructType, typed.Expr]] = []
        for block in BLOCKS:
            if isinstance(block, StructType):
                places = [num(field.offset, UINT64) for field in block.fields if field.type == type]
                found += [(block, place) for place in places]
            elif block.item == type:
                index = self.index(depth) if self.chance(0.7) else num(self.rng.randint(0, 4), UINT64)
                if self.chance(0.5):
                    index = typed.Within(UINT64, N, index, block.count)
                found.append((block, typed.Binary(UINT64, N, "*", index, num(memory_size(type), UINT64))))
        if not found:
            return None
        block, place = self.rng.choice(found)
        return typed.Part(type, N, self.block(block, depth), place)

    def index(self, depth: int) -> typed.Expr:
        """Mostly one of few."""
        any = self.integer(UINT64, depth)
        return typed.Binary(UINT64, N, "&", any, num(3, UINT64)) if self.chance(0.8) else any

    def condition(self, depth: int) -> typed.Expr:
        return self.truth(depth) if self.chance(0.6) else self.integer(self.rng.choice(INTS), depth)

    def fitting(self, type: Type, string: typed.Expr) -> typed.Expr:
        return string if string.type == type else typed.Cast(type, N, string)

    def literal(self, type: StringType) -> typed.Expr:
        return text(self.rng.choice([each for each in _LITERALS if len(each) < type.size]))

    def string(self, type: StringType, depth: int) -> typed.Expr:
        """At most as wide as the type."""
        choices: list[Callable[[], typed.Expr | None]] = [
            lambda: self.literal(type),
            lambda: self.variable(type),
            lambda: builtin("comm", StringType(16)) if type.size >= 16 else None,
            lambda: builtin(self.rng.choice(["probe", "func"]), StringType(64)) if type.size >= 64 else None,
            lambda: self.text(type, 0),
            lambda: self.text(type, 0),
        ]
        if depth > 0:
            choices += [
                lambda: self.text(type, depth - 1),
                lambda: self.text(type, depth - 1),
                lambda: typed.Ternary(
                    type, N, self.condition(depth - 1), self.expr(type, depth - 1), self.expr(type, depth - 1)
                ),
                lambda: self.read(type, depth - 1),
                lambda: self.item(type, depth - 1),
                lambda: self.named(type, depth - 1),
                lambda: self.of_texts(type, depth - 1),
            ]
        return self.first(choices, lambda: self.literal(type))

    def of_texts(self, type: StringType, depth: int) -> typed.Expr | None:
        """What a function makes of strings."""
        function = self.rng.choice(_MAKING)
        count = len(function.args)
        if type.size < 2 * count:
            return None
        return self.made(function, [self.string(StringType(type.size // count), depth) for _ in range(count)])

    def named(self, type: StringType, depth: int) -> typed.Expr | None:
        """The text in a struct's array of chars."""
        block, field = next(
            (block, field) for block in BLOCKS if isinstance(block, StructType) for field in block.fields
            if field.name == "name"
        )  # fmt: skip
        kind = StringType(memory_size(field.type) + 1)
        if kind.size > type.size:
            return None
        return typed.Part(kind, N, self.block(block, depth), num(field.offset, UINT64))

    def text(self, type: StringType, depth: int) -> typed.Expr:
        """A string of the process: often one that was read before."""
        known = [each for each in self.texts if each.type.size <= type.size]  # type: ignore[union-attr]
        if known and self.chance(0.4):
            return self.rng.choice(known)
        size, kind = type.size, self.rng.randrange(4)
        if kind == 0:
            size = self.rng.choice([each for each in (1, 2, 4, 8, 9, 64, 65) if each <= size])
        length = self.integer(UINT64, depth) if self.chance(0.3) else num(self.rng.choice([0, 1, 4, size, 300]), UINT64)
        found = typed.Str(StringType(size), N, self.address(depth), kind == 0, length if kind == 1 else None)
        self.texts.append(found)
        return found

    def tuple(self, type: TupleType, depth: int) -> typed.Expr:
        held = self.variable(type)
        if held is not None and self.chance(0.5):
            return held
        if depth > 0 and self.chance(0.3):
            other = self.read(type, depth - 1)
            if other is not None:
                return other
            sides = self.tuple(type, depth - 1), self.tuple(type, depth - 1)
            return typed.Ternary(type, N, self.condition(depth - 1), *sides)
        return typed.TupleExpr(type, N, tuple(self.expr(item, depth - 1) for item in type.items))
