"""The argument strings of USDT notes: `-4@%edi 8@-16(%rbp) 8@16+state(%rip)` → argument specifications.

An argument string is written by the assembler: each `SIZE@` comes from sys/sdt.h, what follows is whatever text gcc
chose for the operand. So the grammar is the assembler's, and every compiler may come up with a new form. One that is
not understood costs that one argument, which becomes `Unreadable` with a reason, and never the probe or the arguments
after it.

This module is syntax alone. Operands that name a symbol come out as `SymbolMemory` and become places in the file in
`symbol_operands.py`, which knows the symbol table and the site.

SIZE is 1, 2, 4 or 8 bytes, negative for signed; `f` marks a float or double, whose bits are handed on as an integer.
Sources: sys/sdt.h of systemtap; the AT&T syntax of the GNU assembler; AAPCS64 for aarch64's register names.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tracer.dataclass import dataclass
from tracer.kinds.arch import AARCH64, EM_X86, I386_REGISTERS, X86_64, X86_REGISTERS, Arch
from tracer.kinds.site import ArgSpec, Const, Mem, Operand, Reg, Unreadable

MAX_ARGUMENTS = 64
"""sys/sdt.h writes at most 12; a longer string is not one of its making."""


@dataclass(frozen=True, slots=True)
class SymbolMemory:
    """Memory at a symbol plus `addend` (plus registers). `relative`: written with `(%rip)`, so right wherever the file
    is loaded; without, the symbol's address is absolute. `got`: the pointer in the symbol's GOT slot.
    """

    symbol: str
    addend: int
    relative: bool
    base: str | None = None
    index: str | None = None
    scale: int = 1
    got: bool = False


@dataclass(frozen=True, slots=True)
class SymbolAddress:
    """The address of a symbol plus `addend` itself (`$sym`)."""

    symbol: str
    addend: int


Parsed = Operand | SymbolMemory | SymbolAddress


@dataclass(frozen=True, slots=True)
class NoteArgument:
    """An argument as written, before symbols are looked up."""

    text: str
    size: int
    signed: bool
    is_float: bool
    operand: Parsed

    def spec(self, operand: Operand) -> ArgSpec:
        """The argument with its operand resolved."""
        return ArgSpec(self.text, self.size, self.signed, operand, self.is_float)


# A blank ends an operand only where the next one begins: aarch64's `8@[sp, 120]` holds blanks itself. x86 operands may
# come without a size (`%rdi`, known from hand-written notes).
_SPLIT = re.compile(r"\s+(?=-?\d+f?@)")
_SPLIT_X86 = re.compile(r"\s+(?=-?\d+f?@|%)")
_SIZED = re.compile(r"(-?)(\d+)(f?)@(.*)", re.DOTALL)
_NUMBER = r"(?:0[xX][0-9a-fA-F]+|\d+)"
_CONSTANT = re.compile(rf"-?{_NUMBER}")


@lru_cache(maxsize=4096)
def parse(text: str, arch: Arch) -> tuple[NoteArgument, ...]:
    """Parses all arguments of an argument string, in order. Never fails."""
    text = text.strip()
    if not text or text.startswith(":"):  # libbpf too reads a leading colon as "no arguments"
        return ()
    pieces = (_SPLIT_X86 if arch.machine in EM_X86 else _SPLIT).split(text)
    return tuple(_argument(piece.strip(), arch) for piece in pieces[:MAX_ARGUMENTS])


def _argument(text: str, arch: Arch) -> NoteArgument:
    sized = _SIZED.fullmatch(text)
    if sized is None:
        if arch.machine in EM_X86 and text[:1] == "%" and text[1:] in _registers(arch):
            name, width = _registers(arch)[text[1:]]
            return NoteArgument(text, width, False, False, Reg(name))
        return NoteArgument(text, arch.word, False, False, Unreadable(f"{text!r} has no size"))
    sign, digits, is_float, operand_text = sized.groups()
    size = int(digits) if len(digits) < 6 else 0
    argument_operand: Parsed
    if size not in (1, 2, 4, 8):
        argument_operand = Unreadable(f"it has {digits} bytes, not 1, 2, 4 or 8")
    elif is_float and size < 4:
        argument_operand = Unreadable(f"a floating-point number of {size} bytes is unknown")
    elif arch.machine in EM_X86:
        argument_operand = parse_x86(operand_text.strip(), arch)
        if size > arch.word and isinstance(argument_operand, Reg):
            argument_operand = Unreadable(f"it has {size} bytes, and {operand_text.strip()} only {arch.word}")
    elif arch is AARCH64:
        argument_operand = parse_aarch64(operand_text.strip())
    else:
        argument_operand = Unreadable(f"operands of {arch.name} are unknown")
    return NoteArgument(text, size, bool(sign) and not is_float, bool(is_float), argument_operand)


def _not_understood(text: str) -> Unreadable:
    return Unreadable(f"the operand {text!r} is not understood")


def _number(digits: str) -> int:
    return int(digits, 0) if "x" in digits.lower() else int(digits)


def _constant(digits: str) -> Operand:
    value = _number(digits)
    if not -(1 << 63) <= value < 1 << 64:
        return Unreadable(f"the constant {digits} has more than 64 bits")
    return Const(value)


# --- x86 --------------------------------------------------------------------------------

_X86_MEMORY = re.compile(r"([^()]*)\(\s*(%\w+)?\s*(?:,\s*(%\w+)\s*(?:,\s*(\d+)\s*)?)?\)")
_TERM = re.compile(rf"\s*([+-]?)\s*({_NUMBER}|[A-Za-z_.$][\w.$]*(?:@[\w]+)?)\s*")
_THREAD_LOCAL = frozenset(
    ("tpoff", "gottpoff", "tlsgd", "tlsld", "dtpoff", "ntpoff", "gotntpoff", "indntpoff", "tlsldm")
)
_LONGEST = 4096


def _registers(arch: Arch) -> dict[str, tuple[str, int]]:
    return X86_REGISTERS if arch is X86_64 else I386_REGISTERS


def parse_x86(text: str, arch: Arch = X86_64) -> Parsed:
    """An operand in AT&T syntax."""
    if len(text) > _LONGEST:
        return Unreadable(f"the operand has {len(text)} characters")
    if text.startswith("$"):
        return _x86_immediate(text)
    if text.startswith(("%fs:", "%gs:")):
        return Unreadable("it is a thread-local variable, whose place differs from thread to thread")
    if text.startswith("%"):
        return _x86_register(text, _registers(arch))
    memory = _X86_MEMORY.fullmatch(text)
    if memory is None:
        terms = _terms(text)
        return _not_understood(text) if terms is None else _x86_memory(text, terms, None, None, 1)
    before, base, index, scale_text = memory.groups()
    terms = _terms(before)
    scale = int(scale_text or "1") if len(scale_text or "") < 3 else 0
    if terms is None or scale not in (1, 2, 4, 8):
        return _not_understood(text)
    names = []
    for register in (base, index):
        if register is not None and _registers(arch).get(register[1:], ("", 0))[1] != arch.word:
            return Unreadable(f"{register} cannot hold an address")
        names.append(None if register is None else _registers(arch)[register[1:]][0])
    return _x86_memory(text, terms, names[0], names[1], scale)


def _x86_register(text: str, registers: dict[str, tuple[str, int]]) -> Parsed:
    name = text[1:]
    if name in registers:
        return Reg(registers[name][0])
    if name in ("ah", "bh", "ch", "dh"):
        return Unreadable(f"{text} is the second byte of a register")
    if re.fullmatch(r"[xyz]?mm\d+|st(\(\d\))?|k\d", name):
        return Unreadable(f"{text} is a vector or floating-point register, which the kernel does not save at a probe")
    return Unreadable(f"there is no register {text}")


def _x86_immediate(text: str) -> Parsed:
    if _CONSTANT.fullmatch(text, 1):
        return _constant(text[1:])
    terms = _terms(text[1:])
    if terms is None or terms[0] is None or "@" in terms[0]:
        return _not_understood(text)
    return SymbolAddress(terms[0], terms[1])


def _terms(text: str) -> tuple[str | None, int] | None:
    """`16+sym`, `sym-2`, `-8`, `` → the symbol, if any, and the sum of the numbers; None where it is none of these."""
    symbol, total, position = None, 0, 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None or (position and not term[1]):
            return None
        if term[2][0].isdigit():
            if len(term[2]) > 24:
                return None
            total += -_number(term[2]) if term[1] == "-" else _number(term[2])
        elif symbol is not None or term[1] == "-":
            return None
        else:
            symbol = term[2]
        position = term.end()
    return symbol, total


def _x86_memory(text: str, terms: tuple[str | None, int], base: str | None, index: str | None, scale: int) -> Parsed:
    symbol, addend = terms
    if not -(1 << 63) <= addend < 1 << 63:
        return _not_understood(text)
    if symbol is None:
        if base == "ip":
            return Unreadable(f"{text!r} counts from an instruction that the note does not name")
        if not text:
            return _not_understood(text)
        return Mem(base, addend, index, scale)
    name, _, relocation = symbol.partition("@")
    if relocation.lower() in _THREAD_LOCAL:
        return Unreadable(f"{name} is a thread-local variable, whose place differs from thread to thread")
    if relocation == "GOTOFF" and base is not None and base != "ip":
        return SymbolMemory(name, addend, True, None, index, scale)  # the base holds the address of the table
    if relocation == "GOT" and base is not None and index is None and addend == 0:
        return SymbolMemory(name, 0, True, got=True)
    if relocation == "GOTPCREL" and base == "ip" and index is None and addend == 0:
        return SymbolMemory(name, 0, True, got=True)
    if relocation:
        return _not_understood(text)
    if base == "ip":
        return _not_understood(text) if index else SymbolMemory(name, addend, True)
    return SymbolMemory(name, addend, False, base, index, scale)


# --- aarch64 --------------------------------------------------------------------------------

_ARM_MEMORY = re.compile(rf"\[\s*(\w+)\s*(?:,\s*#?(-?{_NUMBER})\s*)?\]")
_ARM_INDEXED = re.compile(r"\[\s*(\w+)\s*,\s*(x\w+)\s*(?:,\s*lsl\s+#?(\d+)\s*)?\]")


def parse_aarch64(text: str) -> Operand:
    """An operand in the syntax of the aarch64 assembler; constants come bare, without `#`."""
    if len(text) > _LONGEST:
        return Unreadable(f"the operand has {len(text)} characters")
    if _CONSTANT.fullmatch(text.removeprefix("#")):
        return _constant(text.removeprefix("#"))
    if text in ("xzr", "wzr"):
        return Const(0)
    if re.fullmatch(r"[bhsdqv]\d+(\.\w+)?", text):
        return Unreadable(f"{text} is a vector or floating-point register, which the kernel does not save at a probe")
    if re.fullmatch(r"\w+", text):
        register = _arm_register(text, narrow=True)
        return Reg(register) if register else Unreadable(f"there is no register {text}")
    memory = _ARM_MEMORY.fullmatch(text)
    if memory is not None:
        base = _arm_register(memory[1])
        displacement = _constant(memory[2] or "0")
        if base is None or not isinstance(displacement, Const):
            return _not_understood(text)
        return Mem(base, displacement.value)
    indexed = _ARM_INDEXED.fullmatch(text)
    if indexed is not None:
        base, index, shift = _arm_register(indexed[1]), _arm_register(indexed[2]), indexed[3] or "0"
        if base is not None and index is not None and shift in ("0", "1", "2", "3"):
            return Mem(base, 0, index, 1 << int(shift))
    return _not_understood(text)


def _arm_register(name: str, narrow: bool = False) -> str | None:
    if name in ("sp", "x31") or (narrow and name == "wsp"):
        return "sp"
    number = re.fullmatch(r"([xw])(\d{1,2})", name)
    if number is None or int(number[2]) > 30 or (number[1] == "w" and not narrow):
        return None
    return f"x{int(number[2])}"
