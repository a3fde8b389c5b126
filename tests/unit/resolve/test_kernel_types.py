"""The kernel's types: made ones, and those of the kernel that runs beside what it says of its own members."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tracer.kernel.btf import own_offsets
from tracer.lang.types import ArrayType, CharType, EnumType, Field, IntType, NamedType, PointerType, StructType
from tracer.lang.types.declared import OF_KERNEL
from tracer.resolve.kernel_types import KernelTypes

INT, POINTER, ARRAY, STRUCT, UNION, ENUM, FORWARD, TYPEDEF, VOLATILE, ENUM_64 = 1, 2, 3, 4, 5, 6, 7, 8, 9, 19


class Made:
    """BTF that is put together type by type."""

    def __init__(self) -> None:
        self.texts = b"\0"
        self.types = b""

    def text(self, name: str) -> int:
        self.texts += name.encode() + b"\0"
        return len(self.texts) - len(name) - 1

    def add(self, kind: int, name: str, size: int, *words: int, parts: int = 0, flag: bool = False) -> None:
        info = kind << 24 | parts | flag << 31
        self.types += struct.pack(f"=III{len(words)}I", self.text(name) if name else 0, info, size, *words)

    @property
    def data(self) -> bytes:
        head = struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(self.types), len(self.types), len(self.texts))
        return head + self.types + self.texts


@pytest.fixture
def types() -> KernelTypes:
    made = Made()
    made.add(INT, "int", 4, 1 << 24 | 32)  # 1
    made.add(INT, "char", 1, 1 << 24 | 8)  # 2
    made.add(ARRAY, "", 0, 2, 1, 16)  # 3: char[16]
    made.add(POINTER, "", 5)  # 4: struct task *
    made.add(  # 5
        STRUCT, "task", 48, made.text("comm"), 3, 0, made.text("next"), 4, 128, 0, 7, 192, made.text("flag"), 1,
        3 << 24 | 261, made.text("state"), 10, 288, made.text("kind"), 11, 320, parts=6, flag=True,
    )  # fmt: skip
    made.add(FORWARD, "elsewhere", 0)  # 6
    made.add(UNION, "", 4, made.text("a"), 1, 0, made.text("b"), 8, 0, parts=2)  # 7
    made.add(TYPEDEF, "count_t", 9)  # 8
    made.add(INT, "unsigned int", 4, 32)  # 9
    made.add(VOLATILE, "", 8)  # 10
    made.add(ENUM_64, "sort", 8, made.text("NONE"), 0, 0, made.text("MANY"), 0, 1, parts=2)  # 11
    made.add(ENUM, "sign", 4, made.text("MINUS"), 0xFFFF_FFFF, parts=1, flag=True)  # 12
    return KernelTypes(made.data, "made")


def test_a_structure_is_as_c_has_it(types: KernelTypes) -> None:
    task = types.type("struct task")
    assert isinstance(task, StructType) and task.size == 48
    number = IntType(32, False)
    inner = StructType("union <anonymous>", 4, (Field("a", IntType(32, True), 0), Field("b", number, 0)))
    assert task.fields == (
        Field("comm", ArrayType(CharType(), 16), 0),
        Field("next", PointerType(target=NamedType("struct task", ("made", 5))), 16),
        Field("", inner, 24),
        Field("flag", IntType(32, True), 32, 5, 3),
        Field("state", number, 36),
        Field("kind", EnumType(64, False, "enum sort", (("NONE", 0), ("MANY", 1 << 32))), 40),
    )
    assert types.type_at(5) == task
    assert types.to("struct task") == NamedType("struct task", ("made", 5)) and types.to("struct nobody") is None


def test_names_are_those_of_c(types: KernelTypes) -> None:
    assert (types.constant("MANY"), types.constant("MINUS"), types.constant("comm")) == (1 << 32, -1, None)
    assert types.type("count_t") == IntType(32, False)
    assert types.type("enum sign") == EnumType(32, True, "enum sign", (("MINUS", -1),))
    for name in ("task", "struct count_t", "struct elsewhere", "union task", "struct tas", "comm", ""):
        assert types.type(name) is None, name
    for number in (0, 6, 13, 1 << 40):
        assert types.type_at(number) is None


@given(st.data())
def test_damage_is_no_fault(data: st.DataObject) -> None:
    made = Made()
    made.add(INT, "int", 4, 1 << 24 | 32)
    made.add(STRUCT, "s", 8, made.text("a"), 1, 0, made.text("b"), 3, 32, parts=2)
    made.add(POINTER, "", 2)
    whole = bytearray(made.data)
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        types = KernelTypes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except ValueError:
        return
    types.type("struct s")
    types.constant("a")
    for number in range(6):
        types.type_at(number)


@pytest.mark.skipif(not Path(OF_KERNEL).exists(), reason="the kernel does not describe itself (CONFIG_DEBUG_INFO_BTF)")
def test_members_are_found_again_where_types_were_known_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    wanted = {"task_struct": ["pid", "comm", "real_parent", "mm", "start_time"], "mm_struct": ["start_code", "arg_end"]}
    offsets, types = own_offsets(wanted), KernelTypes.own()
    assert len(offsets) == 7
    for (owner, member), offset in offsets.items():
        kind = types.type(f"struct {owner}")
        assert isinstance(kind, StructType)
        field = kind.field(member)
        assert field is not None and field.offset == offset, member
