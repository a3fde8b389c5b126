"""Places that the kernel does not probe, though an instruction begins there.

A uprobe executes a copy of the instruction elsewhere, or emulates it, and the kernel takes only instructions that it
knows how to do that with: on x86-64 none with a lock prefix, not all of AVX (arch_uprobe_analyze_insn; it looks when a
process has the place in memory, which is why this comes out so late). A kernel asked for many places at once refuses
all and does not say which is at fault. Where the user named a function that is an error; of a wildcard the others are
probed, and these are counted and said.

To find those at fault means to try parts, and a part that is refused or taken back costs the kernel some 50 ms. So the
parts are chosen such that each holds places that are likely to fare alike.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from tracer.kinds.site import in_files

if TYPE_CHECKING:
    from tracer.kinds.site import FileSite, Spot
    from tracer.lang.typed import Clause

NOT_PROBED = (errno.EOPNOTSUPP, 524, errno.ENOEXEC)
"""What the kernel answers: 524 is its own ENOTSUPP; ENOEXEC where it cannot decode the instruction."""

_PIECES = 32

REMEDY = "the instruction there cannot be probed: choose another place"

_T = TypeVar("_T")

# x86-64, tried on Linux 6.18 one by one; of those with two bytes of opcode (0f) it takes all. A kernel that takes more
# loses nothing: what is doubtful is tried.
_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
_BAD_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\xf0")  # segments, but not fs and gs; lock
_BAD = frozenset(
    bytes.fromhex("06070e16171e1f272f373f60616c6d6e6f829acccdcecfd4d6e4e5e6e7eaecedeeeff1f4fafb")
)
_NOP10 = bytes.fromhex("662e0f1f840000000000")
_VEX2, _VEX3, _EVEX = 0xC5, 0xC4, 0x62
DOUBTFUL = _PREFIXES | _BAD | {_VEX2, _VEX3, _EVEX} | frozenset(range(0x40, 0x50))
"""The first bytes of code of which `kind_of` may make something."""

FINE_IN_32_BITS = frozenset(bytes.fromhex("060e161e272f373f6061829ad4d6ea")) | frozenset(range(0x40, 0x50))
"""Those of them that begin another instruction in a 32-bit program, one that the kernel takes (tried on 6.18 too)."""


class Stopped(Exception):
    """The user has interrupted the wait: nothing may stay attached."""


def may_go_without(clause: Clause, spot: Spot) -> bool:
    """Whether a place of a clause may be left out: whatever attach point it is of means several functions or probes."""
    here = [site for site in in_files(clause.sites) if site.offset == spot[2] and site.spot == spot]
    return all(any(other.point == site.point and other.probe != site.probe for other in clause.sites) for site in here)


def where(site: FileSite) -> tuple[str, int]:
    """Sorts sites by file and offset."""
    return site.path, site.offset


def codes_at(path: bytes, offsets: Sequence[int]) -> list[bytes]:
    """The first 16 bytes at each place of a file."""
    from tracer.opening import opened
    from tracer.resolve.files.first_bytes import code_at

    file = opened(path)
    try:
        order = sorted(range(len(offsets)), key=offsets.__getitem__)
        in_order = code_at(lambda offset, size: os.pread(file, size, offset), [offsets[number] for number in order])
        codes = dict(zip(order, in_order, strict=True))
        return [codes[number] for number in range(len(offsets))]
    finally:
        os.close(file)


def codes_of(sites: Sequence[FileSite]) -> list[bytes]:
    """The first 16 bytes at each of these sites, read through the paths of their files. Raises `OSError`."""
    offsets: dict[str, list[int]] = {}
    for site in sites:
        offsets.setdefault(site.path, []).append(site.offset)
    codes = {path: iter(codes_at(os.fsencode(path), some)) for path, some in offsets.items()}
    return [next(codes[site.path]) for site in sites]


def parts(places: Sequence[_T], codes: Sequence[bytes]) -> list[list[_T]]:
    """Two or more places, of which one at least is refused, in parts to try; `codes` are their first 16 bytes."""
    kinds: dict[bytes, list[_T]] = {}
    for place, code in zip(places, codes, strict=True):
        kinds.setdefault(kind_of(code), []).append(place)
    if len(kinds) > 1:
        return list(kinds.values())
    size = -(-len(places) // _PIECES)
    return [list(places[first : first + size]) for first in range(0, len(places), size)]


def kind_of(code: bytes) -> bytes:
    """The bytes by which the kernel judges a doubtful instruction, as far as it can be told by a look; b"" for all
    others. It is a guess for x86-64: prefix, map and opcode, which costs time alone where it is wrong.
    """
    if code.startswith(_NOP10):
        return _NOP10  # kernels that know it take no other of its prefix
    opcode, bad = 0, b""
    while opcode < len(code) and code[opcode] in _PREFIXES:
        if code[opcode] in _BAD_PREFIXES:
            bad = code[opcode : opcode + 1]
        opcode += 1
    if bad:
        return bad
    if opcode < len(code) and code[opcode] >> 4 == 4:  # REX
        opcode += 1
    code = code[opcode:]
    if code and code[0] in _BAD:
        return code[:1]
    if code[:1] == bytes([_VEX2]) and len(code) > 2:
        return bytes((code[0], code[1] & 7, code[2]))
    if code[:1] == bytes([_VEX3]) and len(code) > 3:
        return bytes((code[0], code[1] & 31, code[2] & 7, code[3]))
    if code[:1] == bytes([_EVEX]) and len(code) > 4:
        return bytes((code[0], code[1] & 7, code[2] & 3, code[4]))
    return b""
