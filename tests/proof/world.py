"""The world that random programs run in: the memory of a process, of which some pages are there and others not, and
hits with their registers, built-ins and stacks. Nothing here knows typed programs or C.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tracer.kinds.site import ArgSpec, Const, Global, GlobalPointer, Mem, Reg

PAGE = 4096
MASK = (1 << 64) - 1
STARTED, CHILD_PID = 1000, 4321
EDGES = [
    0, 1, 2, 3, 7, 8, 10, 31, 63, 64, 65, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32,
    2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, -1, -2, -7, -64, -128, -129, -(2**15), -(2**31), -(2**63),
]  # fmt: skip
REGISTERS = ("ax", "bx", "cx", "dx", "si", "di", "r8", "sp")
"""Those that arguments are in, by their names on x86-64; `ip` besides."""

_TEXTS = [
    b"", b"a", b"ab", b"abc", b"abcd", b"abcdefg", b"abcdefgh", b"abcdefghi", b"shop", b"\xff\xfe", b"aab",
    b"fifteen letters", b"sixteen letters!", b"x" * 62, b"x" * 63, b"x" * 64, b"x" * 65, b"y" * 71, b"y" * 72,
    b"x" * 130, b"ab" * 150,
]  # fmt: skip


@dataclass
class Memory:
    """Pages by address. `points` are addresses worth reading at."""

    pages: dict[int, bytes] = field(default_factory=dict)
    points: list[int] = field(default_factory=list)

    def read(self, address: int, size: int) -> bytes | None:
        """So many bytes; None where one of them is not there."""
        found = b""
        while len(found) < size:
            at = (address + len(found)) & MASK
            page = self.pages.get(at & -PAGE)
            if page is None:
                return None
            found += page[at % PAGE :][: size - len(found)]
        return found

    def text(self, address: int, most: int) -> tuple[bytes, bool | None]:
        """The bytes before a NUL, at most so many, and whether they end there; None where what follows is not there."""
        found = b""
        while len(found) < most:
            at = (address + len(found)) & MASK
            page = self.pages.get(at & -PAGE)
            if page is None:
                return found, None
            part, nul, _ = page[at % PAGE :][: most - len(found)].partition(b"\0")
            found += part
            if nul:
                return found, True
        return found, False

    def string(self, address: int, size: int, sized: bool, length: int | None) -> tuple[bytes, bool] | None:
        """What `str(address)` gives in a buffer of `size` bytes, `str(address, size)` where it is `sized`, and
        `str(address, length)`; and whether it was cut in spite of the program. None where it cannot be read.
        """
        if length is not None and length <= size:
            size, sized = length, True
        if address == 0 or size == 0:
            return b"", False
        shown, ended = self.text(address, size - 1 if sized else size)
        if ended is None:
            return None
        return shown[: size - 1], len(shown) == size


def make_memory(rng: random.Random) -> Memory:
    """A few pages: strings in front, strings and pointers behind, of which the last ends where the page does."""
    memory = Memory()
    starts = [0x10000, 0x11000, 0x5555_0000_0000, 0x7FFF_FFFF_E000, 0x7FFF_FFFF_F000, 0x4242_4242_4000]
    for start in starts:
        memory.points += [start, start + 8, start + 0x80, start + 0x200, start + PAGE - 8]
    for start in starts:
        page = bytearray(rng.choice([b"\0", b"z"]) * PAGE)
        for at in [0, 8, 16, 0x80, 0x90, 0x200]:
            _put(rng, page, at, memory.points)
        if rng.random() < 0.7:
            text = rng.choice(_TEXTS[1:]) + rng.choice([b"\0", b""])
            page[PAGE - len(text) :] = text
            memory.points.append(start + PAGE - len(text))
        memory.pages[start] = bytes(page)
    memory.points += [0, 1, PAGE, 0x12000, MASK, 0x7FFF_FFFF_DFF8]
    return memory


def _put(rng: random.Random, page: bytearray, at: int, points: list[int]) -> None:
    kind = rng.random()
    if kind < 0.5:
        data = rng.choice(_TEXTS) + b"\0"
    elif kind < 0.8:
        data = struct.pack("=Q", (rng.choice(points) + rng.choice([0, 0, 8, -8])) & MASK)
    else:
        data = struct.pack("=Q", rng.choice(EDGES) & MASK)
    page[at : at + len(data)] = data


@dataclass
class Hit:
    """One hit: which site, and what is there. `frames` is empty where the stack cannot be walked."""

    site: int
    registers: dict[str, int]
    built_ins: dict[str, int | bytes]
    frames: tuple[int, ...]
    away: int = 0
    """Bits: pages that a program must wait for. It changes no answer."""


def make_hit(rng: random.Random, sites: int, memory: Memory, sound: bool = False) -> Hit:
    """A random one; most registers of a sound one hold addresses with hundreds of bytes behind them."""
    known = memory.points if sound else ()
    safe = [point for point in known if point & -PAGE in memory.pages and point % PAGE < PAGE // 2]

    def word() -> int:
        if sound and rng.random() < 0.9:
            return rng.choice(safe)
        if rng.random() < 0.75:
            return (rng.choice(memory.points) + rng.choice([0, 0, 0, 0, 8, -8, 1])) & MASK
        return (rng.choice(EDGES) if rng.random() < 0.8 else rng.getrandbits(64)) & MASK

    tid = rng.choice([7, 8])
    return Hit(
        rng.randrange(sites),
        {name: word() for name in (*REGISTERS, "ip")},
        {
            "pid": 7,
            "tid": tid,
            "uid": rng.choice([0, 1000, 2**32 - 2]),
            "gid": rng.choice([0, 1000, 2**32 - 1]),
            "cpu": rng.choice([0, 1, 63]),
            "moment": 0,
            "nsecs": rng.choice([STARTED, STARTED + 1, 2**40, 2**63 + 5]),
            "comm": rng.choice([b"shop", b"", b"fifteen letters", b"abc"]),
            "cpid": CHILD_PID,
            "started": STARTED,
        },
        () if rng.random() < 0.2 else tuple(rng.choice(memory.points) for _ in range(rng.randint(1, 5))),
        rng.getrandbits(6) if rng.random() < 0.5 else 0,
    )


def cut_to(value: int, bits: int, signed: bool) -> int:
    """The integer that so many low bits of it are."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def argument(spec: ArgSpec, hit: Hit, memory: Memory) -> int | None:
    """An argument at a hit, of its own size and sign; None where it cannot be read."""
    bits = 8 * spec.size
    match spec.operand:
        case Const(value=value):
            return cut_to(value, bits, spec.signed)
        case Reg(name=name):
            return cut_to(hit.registers[name], bits, spec.signed)
        case Mem(base=base, disp=disp, index=index, scale=scale):
            address = disp + (hit.registers[base] if base else 0) + (hit.registers[index] * scale if index else 0)
            return _integer(memory.read(address & MASK, spec.size), bits, spec.signed)
        case Global():
            return _integer(memory.read(_global(spec.operand, hit), spec.size), bits, spec.signed)
        case GlobalPointer(slot=slot):
            pointer = _integer(memory.read(_global(slot, hit), 8), 64, False)
            return None if pointer is None else cut_to(pointer, bits, spec.signed)
        case _:
            return None


def _global(operand: Global, hit: Hit) -> int:
    index = hit.registers[operand.index] * operand.scale if operand.index else 0
    return (hit.registers["ip"] + operand.site_delta + index) & MASK


def _integer(raw: bytes | None, bits: int, signed: bool) -> int | None:
    return None if raw is None else cut_to(int.from_bytes(raw, "little"), bits, signed)


def integer_at(memory: Memory, address: int, bits: int, signed: bool) -> int | None:
    """The integer at an address."""
    return _integer(memory.read(address & MASK, bits // 8), bits, signed)


_X86 = [
    "r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di", "orig_ax", "ip",
    "cs", "flags", "sp", "ss",
]  # fmt: skip
_ARM = [f"x{number}" for number in range(31)] + ["sp", "ip"]
_HIT = struct.Struct("=36Q6Q16sq8QQ")


def pack(hit: Hit, function: int, cookie: int, machine: str) -> bytes:
    """`struct hit` of shim.c."""
    names: Sequence[str] = _ARM if machine == "aarch64" else _X86
    registers = [hit.registers.get(name, 0xBAD) for name in names]
    registers += [0] * (34 - len(registers))
    known = hit.built_ins
    return _HIT.pack(
        function,
        cookie,
        *registers,
        *(known[name] for name in ("pid", "tid", "uid", "gid", "cpu", "nsecs")),
        known["comm"],
        len(hit.frames) or -14,
        *hit.frames,
        *[0] * (8 - len(hit.frames)),
        hit.away,
    )
