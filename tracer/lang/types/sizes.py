"""Values lie in memory as a program in C would have them: tuples are structs of their items, as in bpftrace."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.lang.types import ArrayType, BoolType, Field, IntType, StringType, TupleType, Type, memory_size


def size_of(type: Type) -> int:
    """Bytes of a value: `sizeof`."""
    if not isinstance(type, TupleType):
        return memory_size(type)
    return _up(max((offset + size_of(item) for offset, item in placed(type)), default=0), _alignment(type))


def bit_field(name: str, type: IntType | BoolType, first: int, width: int, size: int) -> Field | None:
    """A bit field from a bit of a struct of `size` bytes on, in an integer that holds it: of its own type where that
    is possible, of another where it is packed. None where it lies in nine bytes.
    """
    unit = memory_size(type)
    start = first // 8 // unit * unit
    if first + width > (start + unit) * 8 or start + unit > size:
        assert isinstance(type, IntType)
        start = first // 8
        unit = next((count for count in (1, 2, 4, 8) if first % 8 + width <= 8 * count), 8)
        type = IntType(8 * unit, type.signed)
        start = min(start, max(size - unit, 0))
        if first + width > (start + unit) * 8:
            return None
    return Field(name, type, start, first - start * 8, width)


def placed_words(size: int) -> Iterator[tuple[int, int]]:
    """The integers that so many bytes are made of, fewer than nine: where each begins, and its own."""
    offset = 0
    for part in (8, 4, 2, 1):
        if size & part:
            yield offset, part
            offset += part


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
