"""The value of a DWARF expression over registers and the stack, as call frame instructions have them.

The usual forms: what linkers write for procedure linkage tables, the C library for signal handlers' frames, compilers
for functions that align their stack. Others are not understood. Source: DWARF 5, 2.5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from tracer.resolve.dwarf.leb import leb

_ALL = (1 << 64) - 1
_MOST = 64
"""The most operations of one expression, and the most values on its stack."""

_CONSTANTS = {0x08: "<B", 0x09: "<b", 0x0A: "<H", 0x0B: "<h", 0x0C: "<I", 0x0D: "<i", 0x0E: "<Q", 0x0F: "<q"}
"""The layouts of the constants of DW_OP_const1u to DW_OP_const8s."""


class NotUnderstood(Exception):
    """An operation that is none of the usual."""


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_BINARY: dict[int, Callable[[int, int], int]] = {
    0x1A: lambda left, right: left & right,
    0x1C: lambda left, right: left - right,
    0x1E: lambda left, right: left * right,
    0x21: lambda left, right: left | right,
    0x22: lambda left, right: left + right,
    0x24: lambda left, right: left << right if right < 64 else 0,
    0x25: lambda left, right: left >> right if right < 64 else 0,
    0x29: lambda left, right: left == right,
    0x2A: lambda left, right: _signed(left) >= _signed(right),
    0x2B: lambda left, right: _signed(left) > _signed(right),
    0x2C: lambda left, right: _signed(left) <= _signed(right),
    0x2D: lambda left, right: _signed(left) < _signed(right),
    0x2E: lambda left, right: left != right,
}


def evaluate(
    expression: bytes, registers: Sequence[int | None], read: Callable[[int], int], first: Sequence[int] = ()
) -> int:
    """The value of an expression. `registers` are by DWARF number, None where unknown; `read` gives 8 bytes of memory;
    `first` stands on the stack already. Raises `NotUnderstood`, and what `read` raises.
    """
    stack = list(first)
    position = operations = 0
    try:
        while position < len(expression):
            code = expression[position]
            position += 1
            operations += 1
            if operations > _MOST or len(stack) > _MOST:
                raise NotUnderstood
            if 0x30 <= code <= 0x4F:  # DW_OP_lit0 …
                stack.append(code - 0x30)
            elif 0x70 <= code <= 0x8F:  # DW_OP_breg0 …
                value = registers[code - 0x70]
                offset, position = leb(expression, position, signed=True)
                if value is None:
                    raise NotUnderstood
                stack.append(value + offset)
            elif code in _BINARY:
                right = stack.pop()
                stack.append(int(_BINARY[code](stack.pop(), right)))
            elif code == 0x06:  # DW_OP_deref
                stack.append(read(stack.pop()))
            elif code == 0x12:  # DW_OP_dup
                stack.append(stack[-1])
            elif code == 0x13:  # DW_OP_drop
                stack.pop()
            elif code == 0x14:  # DW_OP_over
                stack.append(stack[-2])
            elif code == 0x16:  # DW_OP_swap
                stack[-2:] = stack[:-3:-1]
            elif code == 0x1F:  # DW_OP_neg
                stack.append(-stack.pop())
            elif code == 0x20:  # DW_OP_not
                stack.append(~stack.pop())
            elif code == 0x23:  # DW_OP_plus_uconst
                number, position = leb(expression, position)
                stack.append(stack.pop() + number)
            elif code in _CONSTANTS:
                layout = _CONSTANTS[code]
                stack.append(struct.unpack_from(layout, expression, position)[0])
                position += struct.calcsize(layout)
            elif code in (0x10, 0x11):  # DW_OP_constu, DW_OP_consts
                number, position = leb(expression, position, signed=code == 0x11)
                stack.append(number)
            elif code != 0x96:  # DW_OP_nop
                raise NotUnderstood
            if stack:
                stack[-1] &= _ALL
        return stack[-1]
    except (IndexError, struct.error):
        raise NotUnderstood from None
