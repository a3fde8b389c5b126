"""The names that bpftrace's `typeinfo()` gives to types."""

from __future__ import annotations

from tracer.lang.types import (
    ArrayType,
    BoolType,
    BufferType,
    CgroupPathType,
    EnumType,
    FloatType,
    InetType,
    IntType,
    KernelSymbolType,
    MacType,
    PointerType,
    StackType,
    StringType,
    SymbolType,
    SyscallType,
    TimestampType,
    TupleType,
    Type,
    UsernameType,
)


def described(type: Type) -> tuple[str, str]:
    """The kind of a type, and its whole name."""
    match type:
        case PointerType(target=target):
            return "pointer", f"{'void' if target is None else described(target)[1]} *"
        case SyscallType():
            return "string", "string[64]"
        case StringType():
            return "string", str(type)
        case EnumType():
            return "int", str(type)
        case IntType(bits=bits, signed=signed):
            return "int", str(IntType(bits, signed))
        case BoolType():
            return "bool", "bool"
        case TupleType(items=items, names=()):
            return "tuple", f"({','.join([described(item)[1] for item in items])})"
        case TupleType(items=items, names=names):
            fields = [f".{name} = {described(item)[1]}" for name, item in zip(names, items, strict=True)]
            return "record", f"record {{ {', '.join(fields)} }}"
        case BufferType(room=room):
            return "buffer", f"buffer[{4 + room}]"
        case InetType():
            return "inet", "inet[24]"
        case MacType():
            return "mac_address", "mac_address"
        case ArrayType(item=item, count=count):
            return "array", f"{described(item)[1]}[{count}]"
        case StackType(mode=mode, frames=frames, kernel=kernel):
            name = "kstack" if kernel else "ustack"
            return name, f"{name}_{mode}_{frames}"
    named: dict[object, str] = {
        SymbolType: "usym_t", KernelSymbolType: "ksym_t",
        UsernameType: "username_t", CgroupPathType: "cgroup_path_t", TimestampType: "timestamp",
        FloatType: "float",
    }  # fmt: skip
    if word := named.get(type.__class__):
        return word, word
    return "c_type", str(type)
