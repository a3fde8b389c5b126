"""LEB128 writes numbers of any length, seven bits a byte. Source: DWARF 5, 7.6."""

from __future__ import annotations


def leb(data: bytes, offset: int, signed: bool = False) -> tuple[int, int]:
    """The number at an offset, and the offset behind it. Raises `IndexError` where it is cut off."""
    value = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value - (1 << shift) if signed and byte & 0x40 else value), offset
        if shift >= 70:
            raise IndexError("a number of more than 64 bits")
