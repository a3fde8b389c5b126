"""Walks one stack: from a thread's registers and a copy of its stack's top to the addresses of its callers.

Nearly every frame on x86-64 is found by three numbers: its CFA is rsp or rbp plus a constant, the return address lies
below it, and rbp may be saved at a distance from it. Such frames are *plain*, and are walked with these two registers
alone, in half a microsecond. Where a later frame needs others (the handler's frame of a signal, a function that aligns
its stack by another register), the walk begins anew with all of them.

How a stack ends is told: `WHOLE` at the program's or the thread's first function, `LIMIT` where no more frames were
wanted, `SHORT` where the copy of the stack ends before the stack does, else why it goes no further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer.dataclass import dataclass
from tracer.kinds.arch import RETURN_PROBE_PAGE, RETURN_PROBE_PAGE_32
from tracer.resolve.unwind.expressions import NotUnderstood, evaluate
from tracer.resolve.unwind.registers import Registers
from tracer.resolve.unwind.rules import EXPRESSION, OFFSET, REGISTER, UNDEFINED, VALUE, VALUE_EXPRESSION, Rule

_ALL = (1 << 64) - 1

WHOLE = "whole"
LIMIT = "cut at the limit of frames"
SHORT = "the copy of the stack ends"
NO_CODE = "a return address leads to no code"
RETURN_PROBE = "a return probe hides the caller"
NO_RULE = "no unwind table, and no frame pointer"
UNUSUAL = "a rule of an unusual kind"
ELSEWHERE = "it goes on in another stack"
NO_PROGRESS = "a frame that lies below its callee's"

PLAIN, LAST, ENTRY, POINTER, GENERAL, NOTHING, BROKEN = range(7)
"""The ways to leave a frame: by three numbers; not at all, it is the first; it has just been entered and nothing is
known of it; by its frame pointer; by its rule; not at all, for it is no code; not at all, for nothing tells how.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """The unwind rule at one address. `base` is 1 where the CFA is counted from the frame pointer, 0 from the stack
    pointer; `fp` is where the frame pointer is saved relative to the CFA, 0 where it is not.
    """

    kind: int
    base: int = 0
    cfa: int = 0
    fp: int = 0
    rule: Rule | None = None


def step_of(rule: Rule, registers: Registers) -> Step:
    """A rule in the form in which it is used."""
    if rule.is_last:
        return Step(LAST, rule=rule)
    saved = rule.saved
    fp, sp, ip = saved.get(registers.fp), saved.get(registers.sp), saved.get(rule.return_register)
    plain = (
        registers.link is None
        and registers.word == 8
        and not rule.signal
        and rule.expression is None
        and rule.register in (registers.sp, registers.fp)
        and ip == (OFFSET, -8)
        and sp is None
        and (fp is None or (fp[0] == OFFSET and fp[1] != 0))
    )
    if not plain:
        return Step(GENERAL, rule=rule)
    distance = fp[1] if fp is not None else 0
    assert isinstance(distance, int)
    return Step(PLAIN, int(rule.register == registers.fp), rule.offset, distance, rule)


Find = Callable[[int, bool], Step]
"""The step at an address; the second argument says whether a thread is there, and not that a call returns there."""


class Short(str):
    """The ending `SHORT`; the next frame lies in `wanted` bytes of the stack from its pointer on."""

    wanted: int

    def __new__(cls, place: int) -> Short:
        """The word at that place is missing."""
        ending = super().__new__(cls, SHORT)
        ending.wanted = place + 8
        return ending


class _Outside(Exception):
    """The address to read is not in the copy of the stack."""

    def __init__(self, ending: str) -> None:
        super().__init__(ending)
        self.ending = ending


def walk(
    sample: Sequence[int | None], stack: memoryview, registers: Registers, find: Find, most: int, here: bool = True
) -> tuple[tuple[int, ...], str]:
    """The addresses, innermost first and `most` at most, and how the walk ended. `sample` has the registers in perf's
    order, None for those that are not known; `stack` is the copy from the stack pointer up, words of the program.
    `here`: the thread is at the first address, and no call returns there.
    """
    by_number = dict(zip(registers.numbers, sample, strict=True))
    plain = None
    if registers.link is None and registers.word == 8:
        plain = _walk_plain(by_number, stack, registers, find, most, here)
    addresses, ending = plain or _Walk(by_number, stack, registers).run(find, most, here)
    # What is behind the last frame that was wanted is nobody's loss.
    return addresses, LIMIT if len(addresses) >= most and ending != WHOLE else ending


def _walk_plain(
    values: dict[int, int | None], stack: memoryview, registers: Registers, find: Find, most: int, here: bool
) -> tuple[tuple[int, ...], str] | None:
    """The walk where all frames are plain; None where one is not."""
    low, ip, fp = values[registers.sp], values[registers.ip], values[registers.fp]
    assert low is not None and ip is not None and fp is not None
    sp, size = low, 8 * len(stack)
    addresses = [ip]
    while True:
        step = find(ip, here)
        here = False
        kind = step.kind
        if kind == PLAIN:
            cfa = (fp if step.base else sp) + step.cfa
            if step.fp:
                place = cfa + step.fp - low
                if place & 7 or not 0 <= place < size:
                    return tuple(addresses), _outside(place, size)
                fp = stack[place >> 3]
        elif kind == LAST:
            return tuple(addresses), WHOLE
        elif kind == ENTRY:
            cfa = sp + 8
        elif kind == POINTER:
            if not fp:
                return tuple(addresses), WHOLE
            cfa, place = fp + 16, fp - low
            if place & 7 or cfa <= sp:
                return tuple(addresses), NO_RULE
            if not 0 <= place < size:
                return tuple(addresses), Short(place + 8) if 0 <= place < _NEAR else NO_RULE
            fp = stack[place >> 3]
        elif kind == NOTHING:
            addresses.pop()
            return tuple(addresses), _no_code(ip)
        elif kind == BROKEN:
            return tuple(addresses), NO_RULE
        else:
            return None
        place = cfa - 8 - low
        if place & 7 or not 0 <= place < size:
            return tuple(addresses), _outside(place, size)
        if cfa <= sp:
            return tuple(addresses), NO_PROGRESS
        ip, sp = stack[place >> 3], cfa
        if not ip:
            return tuple(addresses), WHOLE
        if len(addresses) >= most:
            return tuple(addresses), LIMIT
        addresses.append(ip)


def _no_code(ip: int, word: int = 8) -> str:
    page = RETURN_PROBE_PAGE if word == 8 else RETURN_PROBE_PAGE_32
    return RETURN_PROBE if ip >> 12 == page else NO_CODE


_NEAR = 8 << 20
"""The bytes above the stack pointer that may well be the same stack: its usual size."""


def _outside(place: int, size: int, word: int = 8) -> str:
    return Short(place) if size <= place < _NEAR and not place % word else ELSEWHERE


class _Walk:
    """The walk with all registers, None for those whose value is not known any more."""

    def __init__(self, sample: dict[int, int | None], stack: memoryview, registers: Registers) -> None:
        self.registers = registers
        self.values: list[int | None] = [sample.get(number) for number in range(registers.count)]
        self.stack = stack
        self.word = registers.word
        self.low = sample[registers.sp] or 0

    def read(self, address: int) -> int:
        place = (address & (1 << 8 * self.word) - 1) - self.low
        size = self.word * len(self.stack)
        if place % self.word or not 0 <= place < size:
            raise _Outside(_outside(place, size, self.word))
        word: int = self.stack[place // self.word]
        return word

    def run(self, find: Find, most: int, here: bool) -> tuple[tuple[int, ...], str]:
        ip = self.values[self.registers.ip]
        assert ip is not None
        addresses = [ip]
        while True:
            step = find(ip, here)
            if step.kind == LAST:
                return tuple(addresses), WHOLE
            if step.kind == NOTHING:
                addresses.pop()
                return tuple(addresses), _no_code(ip, self.word)
            if step.kind == BROKEN:
                return tuple(addresses), NO_RULE
            before = self.values[self.registers.sp]
            try:
                next_ip = self.leave(step)
            except _Outside as error:
                return tuple(addresses), error.ending
            except NotUnderstood:
                return tuple(addresses), UNUSUAL
            here = step.rule is not None and step.rule.signal
            after = self.values[self.registers.sp]
            if not next_ip:
                return tuple(addresses), NO_RULE if next_ip is None else WHOLE
            if not here and after is not None and before is not None and after <= before and not self._leaf(step):
                return tuple(addresses), NO_PROGRESS
            if len(addresses) >= most:
                return tuple(addresses), LIMIT
            ip = next_ip
            addresses.append(ip)

    def _leaf(self, step: Step) -> bool:
        """Whether a function may have no frame there, with the return address in a register."""
        return self.registers.link is not None and step.rule is not None

    def leave(self, step: Step) -> int | None:
        """Goes to the caller; its address, None where it is not known."""
        if step.rule is not None:
            return self._by_rule(step.rule)
        registers, values = self.registers, self.values
        sp, fp = values[registers.sp], values[registers.fp]
        if step.kind == ENTRY:
            if registers.link is not None:
                return values[registers.link]
            assert sp is not None
            values[registers.sp] = sp + self.word
            return self.read(sp)
        if not fp or sp is None or fp < sp or fp % self.word:
            return 0 if fp == 0 else None
        # Both processors keep the caller's frame pointer and then the return address where the frame pointer points.
        values[registers.fp], values[registers.sp] = self.read(fp), fp + 2 * self.word
        return self.read(fp + self.word)

    def _by_rule(self, rule: Rule) -> int | None:
        registers, old = self.registers, self.values
        if rule.expression is not None:
            cfa = evaluate(rule.expression, old, self.read)
        else:
            base = old[rule.register] if rule.register < len(old) else None
            if base is None:
                raise NotUnderstood
            cfa = base + rule.offset & _ALL
        new = list(old)
        new[registers.sp] = cfa
        for number, (kind, value) in rule.saved.items():
            if number < len(new):
                new[number] = self._saved(kind, value, cfa)
        self.values = new
        ip = new[rule.return_register] if rule.return_register < len(new) else None
        new[registers.ip] = ip
        return ip

    def _saved(self, kind: int, value: int | bytes, cfa: int) -> int | None:
        if isinstance(value, bytes):
            place = evaluate(value, self.values, self.read, (cfa,))
            return self.read(place) if kind == EXPRESSION else place
        if kind == OFFSET:
            return self.read(cfa + value)
        if kind == VALUE:
            return cfa + value & _ALL
        if kind == REGISTER:
            return self.values[value] if value < len(self.values) else None
        assert kind in (UNDEFINED, VALUE_EXPRESSION)
        return None
