"""How values lie in memory where a program in C would have them: tuples are structs of their items, as in bpftrace."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.lang.types import ArrayType, StringType, TupleType, Type, memory_size


def size_of(type: Type) -> int:
    """Bytes of a value: `sizeof`."""
    if not isinstance(type, TupleType):
        return memory_size(type)
    return _up(max((at + size_of(item) for at, item in placed(type)), default=0), _alignment(type))


def placed(type: TupleType) -> Iterator[tuple[int, Type]]:
    """The items of a tuple, each with where it begins."""
    end = 0
    for item in type.items:
        end = _up(end, _alignment(item))
        yield end, item
        end += size_of(item)


def _alignment(type: Type) -> int:
    match type:
        case TupleType(items=items):
            return max(map(_alignment, items), default=1)
        case ArrayType(item=item):
            return _alignment(item)
        case StringType():
            return 1
        case _:
            return min(max(memory_size(type), 1), 8)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
