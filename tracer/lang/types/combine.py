"""Types combine by bpftrace 0.27's rules for integers, which are stated here alone.

bpftrace types a literal as the smallest integer that holds it, and so lets `1` go with signed and unsigned values
alike; values such as `pid` have 32 bits there, with the same effect. Here all of them have 64 bits, and what the small
width meant is a type that yields to others while types are inferred. The typed program has what `settled` makes of it.

Results of arithmetic have 64 bits. `-` gives int64. An int64 that meets a uint64 makes an int64 of it, with a warning:
compared, assigned and as a key. Of the two `/` and `%` compute in uint64, and give int64.
"""

from __future__ import annotations

from collections.abc import Hashable

from tracer.dataclass import dataclass, replace
from tracer.lang.types import (
    INT64,
    UINT64,
    ArrayType,
    BufferType,
    EnumType,
    IntType,
    PointerType,
    StringType,
    StructType,
    TupleType,
    Type,
    VariablePointer,
)


@dataclass(frozen=True, slots=True)
class YieldingType(IntType):
    """Takes the type of what it meets, but for the width; there is one value of each of the classes below."""


@dataclass(frozen=True, slots=True)
class LiteralType(YieldingType):
    """An int64 that came from literals only: takes the type of whatever it meets."""


@dataclass(frozen=True, slots=True)
class SmallType(YieldingType):
    """A uint64 that is known to stay below 2**32: becomes int64 where it meets a signed value."""


@dataclass(frozen=True, slots=True)
class NotedType(YieldingType):
    """A USDT argument that is unsigned in its note: becomes int64 where it meets a signed value too, since bpftrace has
    int64 for every argument of a USDT probe. By itself it is the number that the program has, also from 2**63 on.
    """


LITERAL = LiteralType(64, True)
SMALL = SmallType(64, False)
NOTED = NotedType(64, False)
_YIELDING = (LiteralType, SmallType, NotedType)
"""Each takes the type of those behind it, and of any other, but for the width."""


def settled(type: Type) -> Type:
    """The type as the typed program has it: what yields is a plain integer."""
    if isinstance(type, YieldingType):
        return wide(type)
    return replace(type, items=tuple(map(settled, type.items))) if isinstance(type, TupleType) else type


def join(left: Type, right: Type) -> Type | None:
    """The type that holds every value of both, None where there is none."""
    if isinstance(left, VariablePointer) and isinstance(right, VariablePointer):
        return _join_addresses(left, right)
    if isinstance(left, VariablePointer) or isinstance(right, VariablePointer):
        return None
    if isinstance(left, PointerType) and isinstance(right, PointerType):
        return _join_pointers(left, right)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, PointerType):
            return one if isinstance(other, LiteralType) else None
    if isinstance(left, IntType) and isinstance(right, IntType):
        return join_ints(left, right)
    if isinstance(left, StringType) and isinstance(right, StringType):
        return StringType(max(left.size, right.size), left.trailer or right.trailer)
    if isinstance(left, TupleType) and isinstance(right, TupleType):
        return _join_tuples(left, right)
    if isinstance(left, BufferType) and isinstance(right, BufferType):
        return left if left.count >= right.count else right
    if type(left) is type(right) is ArrayType and isinstance(left.item, PointerType) and left.count == right.count:
        return left if isinstance(right.item, PointerType) else None
    return left if left == right else None


def layout(of: Type | int | str) -> Hashable:
    """A key that is equal for types, and for constants, that show the same bytes in the same way, wherever they are
    defined.
    """
    if isinstance(of, StructType):
        shown = [member.type if isinstance(member.type, EnumType) else str(member.type) for member in of.fields]
        places = [(member.name, member.offset, member.shift, member.width) for member in of.fields]
        return of.size, tuple(zip(places, shown, strict=True))
    return of if isinstance(of, EnumType) else str(of)


def _join_pointers(left: PointerType, right: PointerType) -> PointerType | None:
    """The common type of pointers to types of one name, if they are not known to differ. A void * takes any, since
    nothing can be read there.
    """
    one, other = left.target, right.target
    if one is None or other is None:
        return PointerType()
    if isinstance(one, PointerType) and isinstance(other, PointerType):
        return left if _join_pointers(one, other) else None
    if isinstance(one, IntType) and isinstance(other, IntType):
        return left if one.bits >= other.bits else right
    differ = isinstance(one, StructType) and isinstance(other, StructType) and layout(one) != layout(other)
    return left if str(one) == str(other) and not differ else None


def anywhere(address: VariablePointer) -> VariablePointer:
    """The address of a variable as a number alone."""
    return VariablePointer(target=address.target)


def _join_addresses(left: VariablePointer, right: VariablePointer) -> VariablePointer | None:
    """The common type of addresses: of one variable, of one of several, or a number alone."""
    one, other = (None if side.target is None else settled(side.target) for side in (left, right))
    target = join(one, other) if isinstance(one, StringType) and isinstance(other, StringType) else None
    if one != other and target is None:
        return None
    by_slot: dict[int, VariablePointer] = {}
    for side in (left, right):
        for variable in side.others or (side,):
            earlier = by_slot.setdefault(variable.slot, variable)
            if variable.held is None or (variable.name, variable.held) != (earlier.name, earlier.held):
                return anywhere(left)
            by_slot[variable.slot] = replace(earlier, moved=earlier.moved or variable.moved or side.moved)
    if len(by_slot) > 1:
        return VariablePointer(target=target or left.target, others=tuple([by_slot[slot] for slot in sorted(by_slot)]))
    return replace(by_slot[left.slot], target=left.target)


def join_ints(left: IntType, right: IntType) -> IntType:
    """The type that takes the values of both; an int64 for an int64 and a uint64."""
    if isinstance(left, YieldingType) or isinstance(right, YieldingType):
        for yielding in _YIELDING:
            if isinstance(left, yielding) or isinstance(right, yielding):
                other = right if isinstance(left, yielding) else left
                return other if isinstance(other, YieldingType) else wide(other)
    if left.signed == right.signed:
        if isinstance(left, EnumType | PointerType) or isinstance(right, EnumType | PointerType):
            return left if left == right else wide(left)
        return left if left.bits >= right.bits else right
    signed, unsigned = (left, right) if left.signed else (right, left)
    if signed.bits > unsigned.bits:
        return signed
    return IntType(min(unsigned.bits * 2, 64), True)


def _join_tuples(left: TupleType, right: TupleType) -> TupleType | None:
    if len(left.items) != len(right.items) or sorted(left.names) != sorted(right.names):
        return None
    right = right.ordered(left.names)
    items = [join(one, other) for one, other in zip(left.items, right.items, strict=True)]
    if None in items:
        return None
    return TupleType(tuple(item for item in items if item is not None), left.names)


def wide(type: IntType) -> IntType:
    """64 bits with the sign of `type`."""
    return INT64 if type.signed else UINT64


def stored(type: Type) -> Type:
    """The type in which a map keeps a value: integers in 64 bits, those in tuples too."""
    if isinstance(type, VariablePointer):
        return anywhere(type)
    if isinstance(type, PointerType | EnumType):
        return type
    if isinstance(type, IntType):
        return type if isinstance(type, YieldingType) else wide(type)
    if isinstance(type, TupleType):
        return replace(type, items=tuple(map(stored, type.items)))
    return type


def arithmetic(op: str, left: IntType, right: IntType) -> tuple[IntType, IntType]:
    """The type that the operands of `+ - * / % & | ^ << >>` are converted to, and the type of the result."""
    common = left if op in ("<<", ">>") and left != LITERAL else join_ints(left, right)
    if op in ("/", "%") and (bends(left, common) or bends(right, common)):
        return UINT64, INT64
    if op == "-":
        return INT64, INT64
    result = common if common in (LITERAL, NOTED) else wide(common)
    return result, result


def inverted(type: Type) -> IntType:
    """The type of `~`: an unsigned value stays what it is in bpftrace, where those of `SMALL` have 32 bits."""
    if not isinstance(type, IntType) or type.signed or type == NOTED:
        return INT64
    return IntType(32, False) if type == SMALL else type


def compared(op: str, left: IntType, right: IntType) -> IntType:
    """The type in which two integers are compared. Whether they are equal does not hang on the sign, and an unsigned
    field of an event is what a filter of the kernel can look at.
    """
    common = wide(join_ints(left, right))
    return UINT64 if op in ("==", "!=") and (bends(left, common) or bends(right, common)) else common


def bends(type: Type, to: Type) -> bool:
    """Whether `to` cannot hold all values of an integer type: an int64 those of a uint64."""
    if not isinstance(type, IntType) or not isinstance(to, IntType) or isinstance(type, YieldingType):
        return False
    return (type.signed and not to.signed) or type.bits - type.signed > to.bits - to.signed


def say(type: Type) -> str:
    """A type in a message: strings without their buffer."""
    if isinstance(type, StringType):
        return "string"
    if isinstance(type, TupleType):
        names = [f"{name}=" for name in type.names] or [""] * len(type.items)
        return f"({', '.join(name + say(item) for name, item in zip(names, type.items, strict=True))})"
    return str(type)


def a_type(type: Type) -> str:
    """A type with its article, for messages."""
    name = say(type)
    return f"{'an' if name[0] in 'aei' else 'a'} {name}"
