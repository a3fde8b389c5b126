"""The types of the language and how a value of each looks in Python.

| type | Python value |
|---|---|
| IntType | int, already wrapped to `bits` and sign |
| BoolType | bool |
| StringType | bytes without the closing NUL, at most size - 1 of them |
| TupleType | tuple of the items' values |
| StackType | `Stack(pid, addresses)`, innermost frame first |
| SymbolType | `Symbol(pid, address)` |
| KernelSymbolType | int, the address; its symbol is looked up when it is rendered |
| UsernameType | int, the uid; the name is looked up when it is rendered |
| CgroupPathType | int, the cgroup's number; its paths are looked up when it is rendered |
| TimestampType | int, nanoseconds since boot; formatted when it is rendered |
| FloatType | int, the bits without sign; a number when it is rendered |
| PointerType, EnumType | int, as the integers that they are |
| StructType, ArrayType | bytes, as they lie in the memory of the hit process |
| BufferType, InetType, MacType | bytes, as arrays of uint8 |

Bytes, not str: what a target holds need not be UTF-8, and keys must compare as the kernel compares them.
"""

from __future__ import annotations

from typing import Final

from tracer.dataclass import dataclass
from tracer.lang.types.stacks import (
    STACK_FRAMES_MOST as STACK_FRAMES_MOST,
    STACK_MODES as STACK_MODES,
    KernelSymbolType as KernelSymbolType,
    Stack as Stack,
    StackType as StackType,
    Symbol as Symbol,
    SymbolType as SymbolType,
    is_interpreted as is_interpreted,
    is_of_kernel as is_of_kernel,
)


@dataclass(frozen=True, slots=True)
class IntType:
    """An integer of 8, 16, 32 or 64 bits."""

    bits: int = 64
    signed: bool = True

    def __str__(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.bits}"


@dataclass(frozen=True, slots=True)
class CharType(IntType):
    """C's `char`: an int8, but an array of them is text."""

    bits: int = 8
    signed: bool = True


@dataclass(frozen=True, slots=True)
class PointerType(IntType):
    """An address in the hit process, of a value of type `target` (None: `void *`, which one cannot read at)."""

    bits: int = 64
    signed: bool = False
    target: Type | None = None

    def __str__(self) -> str:
        return f"{'void' if self.target is None else self.target} *"


@dataclass(frozen=True, slots=True)
class VariablePointer(PointerType):
    """The address of a variable, which `held` is the type of, or of a part of it: what reads there reads the variable.
    `moved`: it can lead behind the start. `others`: it is the address of one of several variables, which these tell.
    With neither `held` nor `others` it is that of a map: a number alone.
    """

    slot: int = 0
    name: str = ""
    held: Type | None = None
    moved: bool = False
    others: tuple[VariablePointer, ...] = ()

    @property
    def start(self) -> int:
        """A made-up address, as those of BPF's stack are: as long as a clause runs, no other variable has it."""
        return 0xFFFF_C900_0000_0000 + (self.slot << 24)

    def __str__(self) -> str:
        return f"address of {self.name}" if self.name else PointerType.__str__(self)


@dataclass(frozen=True, slots=True)
class EnumType(IntType):
    """An `enum`: an integer of which some values have a name."""

    bits: int = 32
    signed: bool = False
    name: str = ""
    members: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return self.name

    def word(self, value: int) -> str | None:
        """The name of a value."""
        return next((name for name, number in self.members if number == value), None)


@dataclass(frozen=True, slots=True)
class SyscallType(EnumType):
    """The number of a system call, shown as its name."""

    def word(self, value: int) -> str:
        """The name, or what bpftrace says of a number that has none."""
        return next((name for name, number in self.members if number == value), "Unknown syscall")


@dataclass(frozen=True, slots=True)
class BoolType:
    """`true` or `false`; counts as 1 or 0 in arithmetic and for `%d`."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class StringType:
    """A string in a buffer of `size` bytes, the closing NUL included. One that fills it is shown with the `trailer`."""

    size: int
    trailer: str = ""

    def __str__(self) -> str:
        return f"string[{self.size}]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """`(a, b, …)`; a record `(x=a, y=b, …)` has a name for each item."""

    items: tuple[Type, ...]
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.names:
            return f"record({', '.join(f'{name}: {item}' for name, item in zip(self.names, self.items, strict=True))})"
        return f"({', '.join(map(str, self.items))})"

    def ordered(self, names: tuple[str, ...]) -> TupleType:
        """The record type with its fields in the order of `names`."""
        if names == self.names:
            return self
        return TupleType(tuple(self.items[self.names.index(name)] for name in names), names)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """`count` values one after the other in memory. An array of `CharType` is read as a string."""

    item: Type
    count: int

    def __str__(self) -> str:
        return f"{self.item}[{self.count}]"


@dataclass(frozen=True, slots=True)
class BufferType(ArrayType):
    """Bytes of which the hit says how many there are: the length in eight bytes, then room for the most."""

    @staticmethod
    def of(room: int) -> BufferType:
        """A buffer of so many bytes at most."""
        return BufferType(IntType(8, False), 8 + room)

    @property
    def room(self) -> int:
        """The most bytes that there can be."""
        return self.count - 8

    def __str__(self) -> str:
        return f"buffer[{self.room}]"


@dataclass(frozen=True, slots=True)
class InetType(ArrayType):
    """An address of the Internet: its family in eight bytes (AF_INET, AF_INET6), then sixteen; IPv4 needs four."""

    def __str__(self) -> str:
        return "inet"


@dataclass(frozen=True, slots=True)
class MacType(ArrayType):
    """A hardware address of six bytes."""

    def __str__(self) -> str:
        return "macaddr"


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a struct or union: its type and how many bytes from the start it lies. Of a bit field, `shift` is the
    lowest of its `width` bits in the integer of `type` there. An unnamed struct or union has "" for a name: its members
    are found as if they were its holder's.
    """

    name: str
    type: Type
    offset: int
    shift: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct or union with its members; `name` as C writes it, `struct sock`. `size` in bytes."""

    name: str
    size: int
    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return self.name

    def field(self, name: str) -> Field | None:
        """The member of that name, also of an unnamed one, with its place in this one."""
        for field in self.fields:
            if field.name == name:
                return field
            if not field.name and isinstance(field.type, StructType):
                inner = field.type.field(name)
                if inner is not None:
                    return Field(name, inner.type, field.offset + inner.offset, inner.shift, inner.width)
        return None


@dataclass(frozen=True, slots=True)
class NamedType:
    """The type that a pointer leads to, by its name alone: it is looked up where somebody reads there, so a struct can
    lead to itself, and nothing is read that nobody needs. `place`: where debug information has it, a file and an entry.
    """

    name: str
    place: tuple[str, int] | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class UsernameType:
    """A uid, shown as the user's name."""

    def __str__(self) -> str:
        return "username"


@dataclass(frozen=True, slots=True)
class CgroupPathType:
    """The number of a cgroup, shown as its paths in the hierarchies that the wildcard `names` matches."""

    names: str = "*"

    def __str__(self) -> str:
        return "cgroup path"


@dataclass(frozen=True, slots=True)
class TimestampType:
    """Nanoseconds since boot, shown through strftime(3)'s `format` in local time."""

    format: str

    def __str__(self) -> str:
        return "timestamp"


@dataclass(frozen=True, slots=True)
class FloatType:
    """A USDT argument that is a float or a double: it can be shown, and nothing is computed with it."""

    bits: int

    def __str__(self) -> str:
        return f"float{self.bits}"


Type = (
    IntType | BoolType | StringType | TupleType | StackType | SymbolType | UsernameType | KernelSymbolType
    | CgroupPathType | TimestampType
    | FloatType | ArrayType | StructType | NamedType
)
"""`PointerType` and `EnumType` are integers. No value has a `NamedType`."""


def memory_size(type: Type) -> int:
    """Bytes that a value takes in the memory of a program in C: `sizeof`; 0 for what has no form there."""
    match type:
        case IntType(bits=bits) | FloatType(bits=bits):
            return bits // 8
        case BoolType():
            return 1
        case StringType(size=size) | StructType(size=size):
            return size
        case ArrayType(item=item, count=count):
            return count * memory_size(item)
        case TupleType(items=items):
            return sum(map(memory_size, items))
        case _:
            return 0


def is_block(type: Type) -> bool:
    """Whether a value is the bytes of memory, a struct, union or array."""
    return isinstance(type, StructType | ArrayType)


UINT8 = IntType(8, False)
INT64 = IntType(64, True)
UINT64 = IntType(64, False)
BOOL = BoolType()
INET = InetType(UINT8, 24)
MAC = MacType(UINT8, 6)

INTEGER_TYPES: Final[dict[str, IntType | BoolType]] = {
    "bool": BOOL,
    **{
        f"{'' if signed else 'u'}int{bits}{suffix}": IntType(bits, signed)
        for suffix in ("", "_t")
        for bits in (8, 16, 32, 64)
        for signed in (True, False)
    },
    "char": CharType(),
    "short": IntType(16, True),
    "int": IntType(32, True),
    "long": IntType(64, True),
    "unsigned int": IntType(32, False),
    "unsigned long": IntType(64, False),
    "size_t": IntType(64, False),
    "uintptr_t": IntType(64, False),
}
"""Types of casts, with C's names for them."""


def has_stack(kind: Type) -> bool:
    """Whether values of the type hold stacks."""
    return isinstance(kind, StackType) or (isinstance(kind, TupleType) and any(map(has_stack, kind.items)))


Value = int | bool | bytes | tuple["Value", ...] | Stack | Symbol
