"""32-bit files of i386: what is read of them, and what may be probed in them."""

from __future__ import annotations

import platform
import struct
import subprocess
from pathlib import Path

import pytest

from tests.targets.build import build
from tracer.kinds.arch import EM_386, I386
from tracer.kinds.site import Const, Global, GlobalPointer, Mem, Reg, Unreadable
from tracer.resolve.binary import Binary
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.relocations import relocations
from tracer.resolve.elf.structures import SHT_DYNSYM
from tracer.resolve.elf.symbol_table import read_table
from tracer.resolve.safety.opcodes import is_misdecoded
from tracer.resolve.safety.own_return import reads_own_return
from tracer.resolve.unwind.registers import I386 as REGISTERS
from tracer.resolve.unwind.rules import OFFSET, Rule
from tracer.resolve.unwind.walker import ENTRY, LAST, NO_CODE, NOTHING, RETURN_PROBE, WHOLE, Step, step_of, walk
from tracer.resolve.usdt.operands import SymbolAddress, SymbolMemory, parse

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the compiler has no -m32")

LIBRARY = r"""
int counter = 7;
static int own = 8;
extern int other(int);
int twice(int n) { return other(n) + counter + own; }
int __attribute__((naked)) thunk(void) { __asm__("mov (%esp), %eax\n ret"); }
int __attribute__((naked)) popped(void) { __asm__("pop %edx\n jmp *%edx"); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("narrow")
    (home / "library.c").write_text(LIBRARY)
    flags = ["-m32", "-O1", "-fPIC", "-shared", "-nostdlib", "-fcf-protection=none"]
    subprocess.run(["gcc", *flags, "library.c", "-o", "library.so"], cwd=home, check=True)
    return home / "library.so"


def operand(text: str) -> object:
    (argument,) = parse(text, I386)
    return argument.operand


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4@%eax", Reg("ax")),
        ("-1@%cl", Reg("cx")),
        ("-4@-12(%ebp)", Mem("bp", -12)),
        ("8@8(%esp)", Mem("sp", 8)),
        ("-4@(%esi,%edi,4)", Mem("si", 0, "di", 4)),
        ("4@$-5", Const(-5)),
        ("-4@counter", SymbolMemory("counter", 0, False)),
        ("-4@table(,%eax,4)", SymbolMemory("table", 0, False, None, "ax", 4)),
        ("-4@own@GOTOFF(%ebx)", SymbolMemory("own", 0, True)),
        ("-4@8+table@GOTOFF(%ebx,%edx,4)", SymbolMemory("table", 8, True, None, "dx", 4)),
        ("4@shared@GOT(%ebx)", SymbolMemory("shared", 0, True, got=True)),
        ("4@$name", SymbolAddress("name", 0)),
        ("4@%rax", Unreadable("there is no register %rax")),
        ("4@(%rax)", Unreadable("%rax cannot hold an address")),
        ("8@%eax", Unreadable("it has 8 bytes, and %eax only 4")),
        ("4@tls@NTPOFF(%eax)", Unreadable("tls is a thread-local variable, whose place differs from thread to thread")),
    ],
)
def test_operands_are_those_of_32_bits(text: str, expected: object) -> None:
    assert operand(text) == expected


def test_notes_have_addresses_of_four_bytes() -> None:
    binary = Binary(str(build("narrow")))
    assert [(each.provider, each.name) for each in binary.usdt] == [("narrow", "item"), ("narrow", "guarded")]
    for note in binary.usdt:
        (seen,) = binary.symbols.named("seen")
        assert seen.address <= note.address < seen.address + seen.size
        (variable,) = binary.symbols.variables(f"narrow_{note.name}_semaphore")
        assert note.semaphore == variable.address
    (global_,) = [each.operand for each in binary.arguments(binary.usdt[0]) if "counter" in each.text]
    (counter,) = binary.symbols.variables("counter")
    assert isinstance(global_, Global)
    assert (global_.address, {each.word for each in binary.arguments(binary.usdt[0])}) == (counter.address, {4})


def test_arguments_of_functions_are_words_on_the_stack() -> None:
    args = Binary(str(build("narrow"))).function_args("add")
    assert [each.operand for each in args] == [Mem("sp", 4 + 4 * number) for number in range(10)]
    assert {(each.size, each.word) for each in args} == {(4, 4)}


def test_relocations_have_their_addend_where_they_apply(library: Path) -> None:
    with Elf(str(library)) as elf:
        table = read_table(elf, SHT_DYNSYM)
        assert table is not None
        found = {table.name(each.symbol): (each.kind, each.addend) for each in relocations(elf)}
    kinds = I386.relocations
    assert found == {"other": (kinds.jump_slot, 0), "counter": (kinds.glob_dat, 0)}


def test_a_slot_of_the_offset_table_is_read_as_a_pointer(library: Path) -> None:
    binary = Binary(str(library))
    (twice,) = binary.symbols.named("twice")
    (argument,) = parse("4@counter@GOT(%ebx)", I386)
    assert isinstance(binary._places.resolve(argument.operand, twice.address), GlobalPointer)


def test_the_symbols_of_a_file_without_section_headers_are_found(library: Path) -> None:
    content = bytearray(library.read_bytes())
    struct.pack_into("<I", content, 32, 0)  # e_shoff
    struct.pack_into("<HH", content, 48, 0, 0)  # e_shnum, e_shstrndx
    elf = Elf("bare", bytes(content))
    table = read_table(elf, SHT_DYNSYM)
    assert table is not None
    assert {each.name for each in table.functions} == {"twice", "thunk", "popped"}
    assert len(list(relocations(elf))) == 2


def test_code_that_reads_its_return_address_is_known(library: Path) -> None:
    binary = Binary(str(library))
    found = {name: reads_own_return(binary.code, *binary.symbols.named(name)) for name in ("twice", "thunk", "popped")}
    assert found == {"twice": False, "thunk": True, "popped": True}


@pytest.mark.parametrize(
    ("code", "wide", "narrow"),
    [
        ("41 90", True, False),  # xchg %r8,%rax; inc %ecx
        ("c5 f8 77", True, True),  # vzeroupper
        ("c5 08 77", True, False),  # lds (%eax),%ecx
    ],
)
def test_what_linux_misreads_is_told_by_the_mode(code: str, wide: bool, narrow: bool) -> None:
    content = bytes.fromhex(code)
    assert (is_misdecoded(content), is_misdecoded(content, EM_386)) == (wide, narrow)


def test_a_stack_is_walked_in_words_of_four_bytes() -> None:
    """A function that was just entered, one whose frame is found by esp, one by ebp, and the program's first."""
    by_sp = step_of(Rule(4, 12, None, {8: (OFFSET, -4)}, 8, False), REGISTERS)
    by_fp = step_of(Rule(5, 8, None, {8: (OFFSET, -4), 5: (OFFSET, -8)}, 8, False), REGISTERS)
    steps = {0x1000: Step(ENTRY), 0x2000: by_sp, 0x3000: by_fp, 0x4000: Step(LAST)}
    words = [0x2000, 1, 2, 0x3000, 9, 0xFFFF_1234, 0x4000]
    stack = memoryview(struct.pack("7I", *words)).cast("I")
    low = 0xFFFF_0004
    sample = [0] * 17
    sample[6], sample[7], sample[8] = low + 20, low, 0x1000
    found = walk(sample, stack, REGISTERS, lambda address, exact: steps[address], 9)
    assert found == ((0x1000, 0x2000, 0x3000, 0x4000), WHOLE)


def test_the_page_of_return_probes_is_known() -> None:
    sample = [0] * 17
    sample[7] = 0xFFFF_0004

    def ending(address: int) -> str:
        stack = memoryview(struct.pack("I", address)).cast("I")
        steps = {0x1000: Step(ENTRY)}
        sample[8] = 0x1000
        return walk(sample, stack, REGISTERS, lambda at, exact: steps.get(at, Step(NOTHING)), 9)[1]

    assert (ending(0xFFFF_D000), ending(0x5000)) == (RETURN_PROBE, NO_CODE)


GO = r"""
__asm__(".globl runtime.morestack_noctxt\n.type runtime.morestack_noctxt, @function\n"
        "runtime.morestack_noctxt: ret\n.size runtime.morestack_noctxt, 1\n"
        ".globl f\n.type f, @function\n"
        "f: mov %gs:0, %ecx\nmov -4(%ecx), %ecx\nlea -0x40(%esp), %eax\ncmp 8(%ecx), %eax\njbe 1f\n"
        "behind: sub $0x40, %esp\nadd $0x40, %esp\nret\n1: call runtime.morestack_noctxt\njmp f\n.size f, . - f\n"
        ".globl g\n.type g, @function\n"
        "g: mov %gs:0, %ecx\ncmp 8(%ecx), %esp\njbe 1f\nsub $4, %esp\nadd $4, %esp\nret\n1: jmp g\n.size g, . - g\n");
"""


def test_a_go_function_begins_behind_the_check_of_its_stack(tmp_path: Path) -> None:
    (tmp_path / "go.c").write_text(GO)
    flags = ["-m32", "-shared", "-nostdlib", "-Wl,-Bsymbolic", "-Wl,-z,notext"]
    subprocess.run(["gcc", *flags, "go.c", "-o", "go.so"], cwd=tmp_path, check=True)
    binary = Binary(str(tmp_path / "go.so"))
    (f,), (g,), (behind,) = (binary.symbols.variables(name) for name in ("f", "g", "behind"))
    assert binary.stack_checks.body(f.address, f.address + f.size)[0] == behind.address
    assert binary.stack_checks.body(g.address, g.address + g.size)[0] == g.address, "it does not call for more"
