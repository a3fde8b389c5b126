"""Can a function be called again, in the same thread, before it has returned?

The kernel follows 64 return probes inside each other in a thread, and passes over what is called deeper
(MAX_URETPROBE_DEPTH). Who calls whom is read off the bytes of direct calls and jumps, from one function to the next: a
byte that looks like one and is none leads to no function's start, but by a freak. What calls through a pointer, or
leaves the file, may come back.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property

from tracer.kinds.arch import EM_X86, EM_X86_64, X86_64
from tracer.resolve.elf.relocations import relocations
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.elf.symbols import is_cold
from tracer.resolve.safety.code import Code

_MOST_FUNCTIONS, _MOST_BYTES = 16, 16 << 10
"""How much is read of one function's callees and theirs: most of a library is some calls away from anything."""

# call, jmp and jcc to an address; call and jmp through a register or memory (FF with 2 or 4 in the next byte's middle).
_CALLS = re.compile(
    rb"[\xe8\xe9]|\x0f[\x80-\x8f]|\xff[\x10-\x17\x50-\x57\x90-\x97\xd0-\xd7\x20-\x27\x60-\x67\xa0-\xa7\xe0-\xe7]"
)
_THROUGH_SLOT_32 = re.compile(rb"(?:\xf3\x0f\x1e\xfb)?\xff[\x25\xa3]")
_RELATIVE_TO_TABLE = 0xA3  # to ebx, which holds the address of the global offset table
_PLTGOT = 3
_DIRECT_OR_BY_SLOT = re.compile(rb"(?=(\xe8.{4}|\xff\x15.{4}))", re.S)
_MOST_CODE = 64 << 20
"""Bytes that are searched for calls of a function."""
_THROUGH_SLOT = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25")


class Recursion:
    """The calls of one file."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def of(self, function: Function, alone: bool = False) -> bool | None:
        """Whether it can: True where it calls itself, directly or through other functions of the file; False where it
        cannot; None where that is not known. `alone`: its callees are not read.
        """
        if self._code.elf.machine not in EM_X86:
            return None
        reached = {function.address}
        todo = [function]
        size, unknown = 0, False
        while todo and size <= _MOST_BYTES and len(reached) <= _MOST_FUNCTIONS:
            around = self._code.range_of(todo.pop(0))
            content = self._code.elf.memory(around.start, around.end - around.start, "the function's code") or b""
            size += len(content)
            for call in _CALLS.finditer(content):
                end = call.end() + 4
                target = around.start + end + int.from_bytes(content[end - 4 : end], "little", signed=True)
                callee = None if call[0][0] == 0xFF else self.begins_at(target)
                if callee is not None and callee.address == function.address:
                    return True
                if callee is None:
                    unknown = unknown or call[0][0] in b"\xe8\xff" or not around.holds(target)
                elif callee.address not in reached and not around.holds(target):
                    reached.add(callee.address)
                    todo.append(callee)
            if alone:
                break
        return None if unknown or todo else False

    def callees(self, function: Function) -> tuple[list[Function], bool]:
        """The other functions of the file that it calls or jumps to, in the order of its code; and whether it calls
        what is not known: through a pointer, or in another file.
        """
        around = self._code.range_of(function)
        reached: dict[int, Function] = {}
        elsewhere = False
        for instruction in self._code.instructions(around):
            target = instruction.target if instruction.calls or instruction.jumps else None
            if target is None or around.holds(target):
                elsewhere = elsewhere or (instruction.calls and target is None)
                continue
            callee = self.begins_at(target)
            if callee is None:
                elsewhere = elsewhere or instruction.calls
            elif callee.address != function.address and not is_cold(callee.name):
                reached.setdefault(callee.address, callee)
        return list(reached.values()), elsewhere

    def called(self, address: int) -> Function | None:
        """The function of this file that a call of an address enters, by its symbol, through the linkage table, or by
        the unwind tables; None elsewhere, and for other processors.
        """
        if self._code.elf.machine not in EM_X86:
            return None
        function = self.begins_at(address)
        if function is not None:
            return function
        around = self._code.range_at(address)
        if around is None or around.name or around.start != address or self._code.frame_is_there(address):
            return None
        return Function(f"the function at {address:#x}", address, around.end - address)

    def begins_at(self, address: int) -> Function | None:
        """The function that begins there, or that of this file to which the linkage table jumps from there."""
        function = self._code.symbols.function_at(address)
        if function is not None and function.address == address:
            return function
        slot = self._slot(address)
        return None if slot is None else self._slot_targets.get(slot)

    def _slot(self, address: int) -> int | None:
        """The slot through which the linkage table jumps on from there."""
        code = self._code.elf.memory(address, 16, "a call's target") if self._code.executable(address) else None
        wide = self._code.elf.machine == EM_X86_64
        stub = (_THROUGH_SLOT if wide else _THROUGH_SLOT_32).match(code) if code else None
        if stub is None or code is None:
            return None
        slot = int.from_bytes(code[stub.end() : stub.end() + 4], "little", signed=True)
        if wide:
            slot += address + stub.end() + 4
        elif code[stub.end() - 1] == _RELATIVE_TO_TABLE:
            slot += dict(self._code.elf.dynamic).get(_PLTGOT, 0)
        return slot

    def behind_calls_of(self, names: Collection[str]) -> list[int]:
        """The addresses to which calls of functions of these names return, in an x86-64 file."""
        exported, elf = self._code.symbols.exported, self._code.elf
        slots = {
            relocation.address for relocation in relocations(elf)
            if exported is not None and exported.name(relocation.symbol).partition("@")[0] in names
        }  # fmt: skip
        entries = {function.address for name in names for function in self._code.symbols.named(name)}
        reached: dict[int, bool] = {}
        behind = []
        for segment in elf.loads if slots or entries else ():
            if not self._code.executable(segment.address) or segment.file_size > _MOST_CODE:
                continue
            content = elf.memory(segment.address, segment.file_size, "code") or b""
            for call in _DIRECT_OR_BY_SLOT.finditer(content):
                after = segment.address + call.end(1)
                target = after + int.from_bytes(call[1][-4:], "little", signed=True)
                if call[1][0] == 0xFF:
                    behind += [after] * (target in slots)
                    continue
                if target not in reached:
                    reached[target] = target in entries or (bool(slots) and self._slot(target) in slots)
                behind += [after] * reached[target]
        return behind

    @cached_property
    def _slot_targets(self) -> dict[int, Function]:
        """The targets of slots in the linkage table, if they are in the file itself."""
        exported = self._code.symbols.exported
        if exported is None:
            return {}
        functions = {function.name.partition("@")[0]: function for function in exported.functions}
        jump_slot = X86_64.relocations.jump_slot
        return {
            relocation.address: functions[name]
            for relocation in relocations(self._code.elf)
            if relocation.kind == jump_slot and (name := exported.name(relocation.symbol)) in functions
        }
