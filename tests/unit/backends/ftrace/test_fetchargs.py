from __future__ import annotations

import pytest

from tests import typed_ir as ir
from tests.unit.backends.ftrace.plans import compiled, count, definitions, fetched, load, probe, site, spec
from tracer.errors import ProgramError
from tracer.kernel import tracefs
from tracer.kinds.site import Const, Global, GlobalPointer, Mem, Operand, Reg, Unreadable
from tracer.lang import typed
from tracer.lang.types import UINT64, StringType, TupleType


@pytest.mark.parametrize(
    ("operand", "size", "signed", "expected"),
    [
        (Reg("ax"), 4, True, "f0=%ax:s32"),
        (Reg("r8"), 8, False, "f0=%r8:u64"),
        (Reg("di"), 1, False, "f0=%di:u8"),
        (Reg("si"), 2, True, "f0=%si:s16"),
        (Mem("bp", -88), 8, False, "f0=-88(%bp):u64"),
        (Mem("sp", 8), 4, False, "f0=+8(%sp):u32"),
        (Mem("sp", 0), 8, True, "f0=+0(%sp):u64"),
        (Global(0x4010, 0x2010, 0), 4, True, "f0=@+8208:s32"),
        (GlobalPointer(Global(0x3ff0, 0x1ff0, 0)), 8, False, "f0=@+8176:u64"),
    ],
)
def test_an_argument_is_fetched_from_where_its_operand_says(
    operand: Operand, size: int, signed: bool, expected: str
) -> None:
    assert fetched(ir.arg(0), spec(operand, size, signed)) == [expected]


def test_memory_that_may_be_absent_has_its_last_byte_as_a_guard() -> None:
    assert fetched(ir.arg(0), spec(Mem("ax", 8), 4, True)) == [
        "f0=+8(%ax):s32", "f1=+11(%ax):string", "f2=$comm:string",
    ]  # fmt: skip


def test_a_constant_is_not_fetched() -> None:
    program = compiled(probe([count(ir.arg(0))], site(args=[spec(Const(-16), 1, True)])))
    assert definitions(program) == ["p:g/e0 /bin/app:0x1000"]
    (source,) = program.events[0].branches[0][0].sources
    assert source.value == (1 << 64) - 16  # type: ignore[union-attr]


def test_what_is_not_used_is_not_fetched() -> None:
    assert fetched(ir.arg(1), spec(Reg("di")), spec(Reg("si"), 4, True)) == ["f0=%si:s32"]


def test_a_string_comes_with_its_pointer_and_the_sentinel() -> None:
    assert fetched(ir.str_of(ir.arg(0)), spec(Reg("di"))) == ["f0=%di:u64", "f1=+0(%di):string", "f2=$comm:string"]


def test_a_string_behind_a_pointer_in_memory() -> None:
    assert fetched(ir.str_of(ir.arg(0)), spec(Mem("bp", -8))) == [
        "f0=-8(%bp):u64", "f1=+0(-8(%bp)):string", "f2=$comm:string",
    ]  # fmt: skip


def test_a_string_behind_an_offset_and_a_loaded_pointer_is_guarded() -> None:
    address = ir.op("+", load(ir.op("+", ir.arg(0), ir.num(16, UINT64))), ir.num(3, UINT64))
    assert fetched(ir.str_of(address), spec(Reg("di"))) == [
        "f0=+16(%di):u64", "f1=+23(%di):string", "f2=+3(+16(%di)):string", "f3=$comm:string",
    ]  # fmt: skip


def test_a_load_is_fetched_in_its_own_width_and_guarded() -> None:
    assert fetched(load(ir.arg(0), 16, True), spec(Reg("di"))) == [
        "f0=+0(%di):s16", "f1=+1(%di):string", "f2=$comm:string",
    ]  # fmt: skip


def test_a_negative_offset() -> None:
    address = ir.op("-", ir.arg(0), ir.num(8, UINT64))
    assert fetched(load(address, 32), spec(Reg("di")))[0] == "f0=-8(%di):u32"


def test_a_string_at_a_constant_address() -> None:
    assert fetched(ir.str_of(ir.arg(0)), spec(Const(0x402010))) == ["f0=+0(\\4202512):string", "f1=$comm:string"]


def test_a_string_behind_the_global_offset_table() -> None:
    assert fetched(ir.str_of(ir.arg(0)), spec(GlobalPointer(Global(0x3ff0, 0x1ff0, 0))))[1] == "f1=+0(@+8176):string"


def test_the_thread_name_comes_first_so_that_no_string_takes_its_room() -> None:
    key = typed.TupleExpr(
        TupleType((StringType(1024), StringType(16))),
        ir.N,
        (ir.str_of(ir.arg(0)), ir.builtin("comm", StringType(16))),
    )
    assert fetched(key, spec(Reg("di"))) == [
        "f0=$comm:string", "f1=%di:u64", "f2=+0(%di):string", "f3=$comm:string",
    ]  # fmt: skip


def test_the_thread_name_alone_needs_no_sentinel() -> None:
    assert fetched(ir.builtin("comm", StringType(16))) == ["f0=$comm:string"]


@pytest.mark.parametrize(("kind", "place"), [("uretprobe", "$retval"), ("ret", "%ax")])
def test_the_return_value_is_read_as_the_kind_of_probe_allows(kind: str, place: str) -> None:
    assert fetched(typed.Retval(UINT64, ir.N), kind=kind) == [f"f0={place}:u64"]


@pytest.mark.parametrize("name", ["pid", "tid", "nsecs", "cpu", "cpid"])
def test_what_every_sample_carries_is_not_fetched(name: str) -> None:
    assert fetched(ir.builtin(name)) == []


def test_what_hangs_on_an_unreadable_argument_is_absent_there() -> None:
    program = compiled(
        probe([count(ir.str_of(load(ir.arg(0))))], site(args=[spec(Unreadable("no register"))])),
        maps={"@": StringType(1024)},
    )
    assert definitions(program) == ["p:g/e0 /bin/app:0x1000"]
    (source,) = program.events[0].branches[0][0].sources
    assert source.value is None  # type: ignore[union-attr]


def test_a_pointer_of_less_than_eight_bytes_is_refused_under_the_users_text() -> None:
    with pytest.raises(ProgramError) as raised:
        fetched(ir.str_of(ir.arg(0)), spec(Reg("di"), 4))
    assert raised.value.message == (
        "not available with ftrace at usdt:/bin/app:p:n: "
        "arg0 has 4 bytes at the note, and the kernel takes 8 for a pointer"
    )
    assert raised.value.hint == "--backend bcc can read it"


def test_a_constant_address_is_fetched_as_one() -> None:
    at = ir.num(0x404040, UINT64)
    assert fetched(load(at)) == ["f0=@0x404040:u64", "f1=@0x404047:string", "f2=$comm:string"]
    assert fetched(ir.str_of(load(ir.num((1 << 64) - 16, UINT64)))) == [
        "f0=@0xfffffffffffffff0:u64", "f1=@0xfffffffffffffff7:string", "f2=+0(@0xfffffffffffffff0):string",
        "f3=$comm:string",
    ]  # fmt: skip


@pytest.mark.parametrize("register", ["flags", "orig_ax", "cs", "ss"])
def test_the_rest_of_the_registers_can_be_defined(register: str) -> None:
    """What reaches uprobe_events is of a form that is known there."""
    read = typed.Call(UINT64, ir.N, "reg", (typed.StrLit(StringType(9), ir.N, register.encode()),))
    (line,) = definitions(compiled(probe([count(read)])))
    assert line == f"p:g/e0 /bin/app:0x1000 f0=%{register}:u64"
    assert tracefs._DEFINITION.fullmatch(line)


def test_an_indexed_operand_is_refused() -> None:
    with pytest.raises(ProgramError, match="arg0 is at a computed address"):
        fetched(ir.arg(0), spec(Mem("ax", 0, "dx", 8)))


def test_the_owner_is_refused() -> None:
    with pytest.raises(ProgramError, match="ftrace events do not carry it"):
        fetched(ir.builtin("uid"))
