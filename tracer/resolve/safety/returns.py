"""Plans how a function's return is probed: by a return probe, or by a probe on each of its `ret` instructions.

Where nothing can unwind through the function (see `unwind.py`) a return probe is right and fast. Elsewhere an ordinary
probe on every `ret` sees the same, for it touches no stack: at the `ret` the return value is in its register, and the
function is about to leave. That is only right if *all* ways out are `ret`s that we see:

* the whole range of the function must decode, and its jumps must land on decoded instructions;
* a jump out of the range may go to the function's own cold part, which is then looked at in the same way;
* else it is a call in disguise (tail call), after which another function of the file returns to our caller. That one is
  looked at in the same way, and so is what it ends in. Probes on the jumps and on all these `ret`s tell which of the
  latter are ours (`plan.tail_calls`). A jump into another file is refused, and so is one through a pointer;
* an indirect jump must be a `switch`: its table is found, its length taken from the comparison before it, and every
  entry checked to lead back into the function. Otherwise it is refused;
* a function without `ret` never returns, and a probe on it would be silent for ever: refused.

Such probes cost more where the kernel executes a `ret` by single steps (10 us against 1.5 on 6.18, in a virtual
machine). They are also taken where a function calls itself: of return probes the kernel follows 64 inside each other;
and where stacks are asked for: a return probe puts an address of the kernel's in the place of the caller's.

Exits by exception are no returns; neither way reports them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal

from tracer.dataclass import dataclass, replace
from tracer.kinds.arch import EM_X86, EM_X86_64
from tracer.kinds.site import TailPlace
from tracer.resolve.elf.plt import in_plt
from tracer.resolve.elf.structures import PF_W, ElfError
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.elf.symbols import is_cold
from tracer.resolve.safety.code import Code, Range
from tracer.resolve.safety.disassembly import Instruction, decode
from tracer.resolve.safety.placement import UNSAFE
from tracer.resolve.safety.plugins import FILTERED
from tracer.resolve.safety.unwind import RETURNS_TWICE, Unwinding

MAX_TABLE = 4096
_LOOK_BACK = 16
"""How many instructions before an indirect jump may belong to its switch."""
_LONGEST = 15
_CONDITIONS = (
    "jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg",
)  # fmt: skip
"""Jumps on x86's conditions, by the numbers of these."""

_ENTERED = (7, 8, None)
"""The canonical frame address where a function is entered, and left: rsp + 8 (`unwind.rules.Rule`)."""

_MOST_PARTS = 64
"""The most parts of a function. Compilers make two; in a hostile file each could lead to the next."""


@dataclass(frozen=True, slots=True)
class ReturnPlan:
    """The places of the probes: the function's start for "uretprobe", its returns for "ret" (virtual addresses).
    `danger`: why an exception may meet the return probe all the same. `nests`: whether the function may be called again
    before it has returned; the kernel loses returns of such that are nested deeper than 64. `tails`: beside its own
    returns, its tail calls and the returns that these lead to, each with what it is (`TailPlace`).
    """

    kind: Literal["uretprobe", "ret"]
    addresses: tuple[int, ...]
    danger: str | None = None
    nests: bool = False
    tails: tuple[tuple[int, int], ...] = ()


class _NoProof(Exception):
    """The exits cannot all be found, for the reason given."""


def plan_return(
    code: Code, unwinding: Unwinding, function: Function, unsafe: bool = False,
    recursion: Callable[[Function], bool | None] = lambda function: False, walked: bool = False,
    called: Callable[[int], Function | None] | None = None,
) -> ReturnPlan:  # fmt: skip
    """The plan by which each return of the function is seen; `recursion` asks `Recursion`. `walked`: prefer probes on
    `ret`, since the program walks stacks that may hold its return address, or needs the probe to be inside the file.
    `called`: the function that a jump to an address calls; without it no tail call is followed. Raises `ElfError` with
    the reason where it cannot be done safely; if `unsafe` only where it would break the program without an exception
    too.
    """
    if function.name in RETURNS_TWICE:
        raise code.elf.error(
            f"{function.name} saves its return address for later or runs on another stack,"
            " so a return probe would kill the program"
        )
    if unwinding.is_never_called(function):
        raise code.elf.error(
            f"{function.name} is never called: no return address is on the stack where it begins,"
            " and a return probe would overwrite what is there",
            "trace its entry with uprobe",
        )
    danger = unwinding.through(function)
    harmed = danger is not None and unwinding.harmed(function)
    recurs = recursion(function) if danger is None or unsafe else None
    probe = ReturnPlan("uretprobe", (function.address,), danger, recurs is not False)
    if danger is None and not recurs and not walked:
        return probe
    try:
        parts = _parts(code, function)
        instructions = list(chain.from_iterable(map(code.instructions, parts)))
        returns = _returns(code, parts)
    except _NoProof as doubt:
        if danger is None:
            return probe
        reason = doubt
        # Where stacks move, or wait while others run, neither the thread nor the stack pointer tells which call it was.
        wide = code.elf.machine == EM_X86_64  # what a followed call leaves on the stack has 64 bits
        if called is not None and wide and not unwinding.go and unwinding.switched in (None, FILTERED):
            try:
                return _behind_tail_calls(code, unwinding, function, called)
            except _NoProof as doubt:
                reason = doubt
        if unsafe and not harmed:
            return probe
        raise _refusal(code, function, danger, str(reason), "" if harmed else UNSAFE) from None
    if not (harmed or walked or any(instruction.calls for instruction in instructions)) and len(parts) == 1:
        # It calls nothing, so nothing can throw through it.
        return replace(probe, danger=None, nests=False)
    if danger is None and not returns:
        return probe
    if danger is not None and not returns:
        raise _refusal(code, function, danger, "it has no return instruction")
    return ReturnPlan("ret", returns)


def _refusal(code: Code, function: Function, danger: str, reason: str, otherwise: str = "") -> ElfError:
    return code.elf.error(
        f"a return probe on {function.name} could kill the program: {danger};"
        f" and its returns cannot all be found: {reason}",
        f"trace its entry with uprobe, or the return of a function that calls it{otherwise}",
    )


def _parts(code: Code, function: Function, tails: list[tuple[int, int]] | None = None) -> list[Range]:
    """The function's range and those of its cold parts, all exits proven. `tails` gets its tail calls, as the addresses
    of the jumps and where they go; without it there must be none.
    """
    done: list[Range] = []
    todo = [code.range_of(function)]
    while todo:
        part = todo.pop()
        done.append(part)
        parts = done + todo
        for jump, target in _leaving(code, part, parts):
            if not any(visited.holds(target) for visited in parts):
                if len(parts) == _MOST_PARTS:
                    raise _NoProof(f"it has more than {_MOST_PARTS} parts")
                cold = _cold_part(code, function, jump, target)
                if cold is not None:
                    todo.append(cold)
                    parts = done + todo
                elif tails is not None:
                    tails.append((jump, target))
                else:
                    raise _NoProof(f"it ends in a jump to {_named(code, target)} (tail call)")
    return done


def _named(code: Code, address: int) -> str:
    other = code.symbols.function_at(address)
    return other.name if other is not None else hex(address)


def _cold_part(code: Code, function: Function, jump: int, target: int) -> Range | None:
    """The part of the function that a jump leads to, by its name or, in a stripped file, by the unwind tables: they say
    that it begins with a frame on the stack, and with the one that is there at the jump. No function begins so.
    """
    other = code.symbols.function_at(target)
    if other is not None:
        if is_cold(other.name) and other.name.partition(".cold")[0] == function.name:
            return code.range_of(other)
    else:
        part, row = code.range_at(target), code.row(target)
        if part is not None and row is not None and row == code.row(jump) and code.frame_is_there(part.start):
            return part
    return None


def _behind_tail_calls(
    code: Code, unwinding: Unwinding, function: Function, called: Callable[[int], Function | None]
) -> ReturnPlan:
    """The returns of a function, its tail calls, and the returns of what they lead to."""
    calls: list[tuple[int, int]] = []
    returns = _returns(code, _parts(code, function, calls))
    jumps = tuple((jump, _tail_of(code, jump)) for jump, _ in calls)
    ends: set[int] = set()
    seen: set[int] = set()
    while calls:
        jump, target = calls.pop()
        row = code.row(jump)
        if row is not None and (row.register, row.offset, row.expression) != _ENTERED:
            raise _NoProof(f"the jump at {jump:#x} leaves it with more on the stack than its return address")
        callee = called(target)
        if (other := _no_callee(code, unwinding, function, target, callee)) is not None:
            name = callee.name if callee is not None else _named(code, target)
            raise _NoProof(f"it ends in a jump to {name} (tail call), {other}")
        assert callee is not None
        if callee.address in seen:
            continue
        seen.add(callee.address)
        if len(seen) > _MOST_PARTS:
            raise _NoProof(f"its tail calls lead to more than {_MOST_PARTS} functions")
        try:
            ends.update(_returns(code, _parts(code, callee, calls)))
        except _NoProof as reason:
            raise _NoProof(f"it ends in a jump to {callee.name} (tail call), and of that one: {reason}") from None
    if ends.intersection(returns) or not (ends or returns):
        raise _NoProof("it has no return instruction of its own")
    return ReturnPlan("ret", returns, tails=(*jumps, *((end, TailPlace.END) for end in sorted(ends))))


def _no_callee(
    code: Code, unwinding: Unwinding, function: Function, target: int, callee: Function | None
) -> str | None:
    """Says why the function that a tail call leads to cannot be followed; None where it can."""
    if callee is None:
        return "which leads to another file" if in_plt(code.elf, target) else "where no function is known to begin"
    if callee.ifunc:
        return "which is chosen when the file is loaded"
    if callee.address == function.address:
        return "so it calls itself by a jump"
    if callee.name in RETURNS_TWICE or unwinding.is_never_called(callee):
        return "which does not return as other functions do"
    return None


def _returns(code: Code, parts: Sequence[Range]) -> tuple[int, ...]:
    instructions = chain.from_iterable(map(code.instructions, parts))
    return tuple(instruction.address for instruction in instructions if instruction.returns)


def _tail_of(code: Code, jump: int) -> int:
    """The value of `Site.tail` for a jump."""
    (instruction,) = decode(code.elf.memory(jump, _LONGEST, "a jump") or b"", jump, code.elf.machine)[:1]
    if instruction.mnemonic == "jmp":
        return TailPlace.JUMP
    if instruction.mnemonic not in _CONDITIONS:
        raise _NoProof(f"the jump at {jump:#x} leaves it on a condition that cannot be told")
    return TailPlace.JUMP_IF + _CONDITIONS.index(instruction.mnemonic)


def _leaving(code: Code, part: Range, parts: Sequence[Range]) -> list[tuple[int, int]]:
    """The direct jumps that leave `part`, with their targets, after proving the rest of it."""
    instructions = code.instructions(part)
    last = instructions[-1] if instructions else None
    if last is None or last.address + last.size < part.end:
        end = part.start if last is None else last.address + last.size
        raise _NoProof(f"its code at {end:#x} cannot be decoded")
    _check_end(code, instructions, part)
    starts = {instruction.address for instruction in instructions}
    leaving = []
    for index, instruction in enumerate(instructions):
        if not instruction.jumps:
            continue
        targets = [instruction.target] if instruction.target is not None else _switch_targets(code, instructions, index)
        for target in targets:
            assert target is not None
            if part.holds(target):
                if target not in starts:
                    raise _NoProof(f"the jump at {instruction.address:#x} goes into the middle of an instruction")
            elif instruction.target is None and not any(other.holds(target) for other in parts):
                raise _NoProof(f"the jump at {instruction.address:#x} leaves it through a table")
            else:
                leaving.append((instruction.address, target))
    return leaving


def _check_end(code: Code, instructions: Sequence[Instruction], part: Range) -> None:
    """A function must not fall through into the next: its last real instruction ends it, or calls a function that never
    returns.
    """
    index = len(instructions) - 1
    while index > 0 and (instructions[index].mnemonic in ("nop", "int3") or _is_filler(instructions[index])):
        index -= 1
    last = instructions[index]
    if last.goes_on and not last.calls:
        raise _NoProof(f"it falls through into the code at {part.end:#x}")


def _is_filler(instruction: Instruction) -> bool:
    return instruction.mnemonic == "xchg" and instruction.operands == "ax, ax"


# --- switches ------------------------------------------------------------------------------------------------------

_TABLE_ADDRESS = re.compile(r"(\w+), \[rip ([+-]) (0x[0-9a-f]+|\d)\]")
_ABSOLUTE_TABLE_32 = re.compile(r"dword ptr \[\w+\*4 \+ (0x[0-9a-f]+)\]")
_ABSOLUTE_TABLE = re.compile(r"qword ptr \[\w+\*8 \+ (0x[0-9a-f]+)\]")
_KEEPS_FLAGS = re.compile(r"v?mov|lea$|nop$|cdqe$")
_BOUND = re.compile(r".*, (0x[0-9a-f]+|\d)")


def _switch_targets(code: Code, instructions: Sequence[Instruction], index: int) -> list[int]:
    """The targets of the indirect jump, if it is a compiler's switch; otherwise there is no proof."""
    jump = instructions[index]
    unknown = _NoProof(f"the indirect jump at {jump.address:#x} may leave it")
    wide = code.elf.machine == EM_X86_64
    if code.elf.machine not in EM_X86:
        raise unknown
    before = instructions[max(0, index - _LOOK_BACK) : index]
    count = _bound(before)
    if count is None and _is_pointer(jump, before):
        raise _NoProof(f"only a pointer tells where the jump at {jump.address:#x} goes")
    if count is None or count > MAX_TABLE:
        raise unknown
    absolute = (_ABSOLUTE_TABLE if wide else _ABSOLUTE_TABLE_32).fullmatch(jump.operands)
    if absolute is not None:
        return _entries(code, int(absolute[1], 16), count, "<Q" if wide else "<I", 0, unknown)
    # lea table(%rip), %t; movslq (%t,%i,4), %r; add %t, %r; jmp *%r
    tables = set()
    for instruction in before[-8:]:
        address = _TABLE_ADDRESS.fullmatch(instruction.operands) if instruction.mnemonic == "lea" else None
        if address is not None:
            distance = int(address[3], 16)
            tables.add(instruction.address + instruction.size + (distance if address[2] == "+" else -distance))
    names = {instruction.mnemonic for instruction in before[-6:]}
    adds = any(add.mnemonic == "add" and add.operands.startswith(f"{jump.operands}, ") for add in before[-3:])
    if len(tables) != 1 or not adds or not names & {"movsxd", "cdqe"}:
        raise unknown
    table = tables.pop()
    return _entries(code, table, count, "<i", table, unknown)


def _is_pointer(jump: Instruction, before: Sequence[Instruction]) -> bool:
    """Whether nothing looks as if an entry of a table were chosen: it is a tail call, as of `return s->f(s);`."""
    chosen = [instruction for instruction in before[-4:] if instruction.operands.startswith(f"{jump.operands}, ")]
    scaled = "*" in jump.operands or any("*" in instruction.operands for instruction in chosen)
    return not scaled and all(instruction.mnemonic != "add" for instruction in chosen)


def _bound(before: Sequence[Instruction]) -> int | None:
    """The number of the table's entries: from `cmp $N, %r` and the jump to the default case that follows it. Compilers
    put moves between the two, which leave the flags alone.
    """
    jump = None
    for instruction in reversed(before):
        if instruction.mnemonic in ("ja", "jae"):
            jump = instruction
        elif jump is not None and instruction.mnemonic == "cmp":
            bound = _BOUND.fullmatch(instruction.operands)
            return None if bound is None else int(bound[1], 16) + (jump.mnemonic == "ja")
        elif jump is not None and not _KEEPS_FLAGS.match(instruction.mnemonic):
            jump = None
    return None


def _entries(code: Code, table: int, count: int, layout: str, base: int, unknown: _NoProof) -> list[int]:
    segment = code.elf.segment_at(table)
    size = struct.calcsize(layout) * count
    data = code.elf.memory(table, size, "a jump table") or b""
    if segment is None or len(data) < size or not count:
        raise unknown
    if segment.flags & PF_W and not _relocated_read_only(code, table):
        raise unknown
    return [(value + base) & 0xFFFFFFFFFFFFFFFF for (value,) in struct.iter_unpack(layout, data)]


def _relocated_read_only(code: Code, address: int) -> bool:
    """Whether the address lies in .data.rel.ro, which is read-only once loaded."""
    section = code.elf.section(".data.rel.ro")
    return section is not None and section.address <= address < section.address + section.size
