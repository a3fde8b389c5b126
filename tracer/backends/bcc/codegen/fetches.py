"""Fetches → C."""

from __future__ import annotations

from tracer.backends.bcc.codegen import records
from tracer.backends.bcc.codegen.arguments import register, return_value
from tracer.backends.bcc.codegen.c import C, call, cast
from tracer.backends.bcc.codegen.function import Buffer, CFunction
from tracer.backends.bcc.codegen.placement import Leaf
from tracer.backends.bcc.codegen.wide import clear, computed, set_used, zero
from tracer.kinds.arch import X86_64, native
from tracer.kinds.site import OwnOperand
from tracer.lang.types import StackType
from tracer.steps.model import Fetch
from tracer.steps.values import (
    Argument,
    BuiltIn,
    Bytes,
    InMemory,
    KernelStack,
    Memory,
    Register,
    ReturnValue,
    Text,
    UserStack,
)

_BUILT_INS = {
    "pid": call("process_id"),
    "tid": call("thread_id"),
    "first_pid": C("(current_pid_tgid() >> 32)"),
    "first_tid": C("(u32)current_pid_tgid()"),
    "uid": C("(u32)current_uid_gid()"),
    "gid": C("current_uid_gid() >> 32"),
    "cpu": call("current_cpu"),
    "nsecs": call("boot_ns"),
    "cgroup": call("current_cgroup"),
    "jiffies": call("tick_count"),
    "usermode": C("((REGISTER(cs) & 3) == 3)" if native() is X86_64 else "((REGISTER(pstate) & 15) == 0)"),
    "monotonic": call("monotonic_ns"),
    "ppid": call("parent_id"),
    "curtask": call("current_task"),
    "tai": C("(boot_ns() + TAI_AHEAD)"),
}
_OF_CONTROL = {"moment": C("0"), "cpid": C("control->cpid"), "started": C("control->started")}


def fetch(function: CFunction, step: Fetch) -> None:
    """Reads one value."""
    name = step.name
    match step.source:
        case Argument(index=index):
            function.numbers[name.id] = function.context.argument(function, index, name)
        case Register(name=register_name):
            function.numbers[name.id] = register(register_name)
        case ReturnValue():
            function.numbers[name.id] = cast("u64", return_value())
        case BuiltIn(name="comm"):
            buffer = function.home(name)
            clear(function, buffer, from_word=2)
            function.line(f"current_comm({buffer.address(0)}, 16);")
            # Linux 6.1 leaves what lay behind the name in the kernel's sixteen bytes; 6.18 clears it.
            function.line(f"end_text({buffer.address(0)}, 2);")
            set_used(function, buffer, "16")
        case BuiltIn(name="pcomm" | "leader_comm" as whose):
            buffer = function.home(name)
            zero(function, buffer)
            function.shared.tasks = True
            function.line(f"{whose}({buffer.address(0)});")
            set_used(function, buffer, "16")
        case BuiltIn(name=built_in) if built_in in _OF_CONTROL:
            function.numbers[name.id] = _OF_CONTROL[built_in]
        case BuiltIn(name=built_in):
            function.shared.tasks |= built_in == "ppid"
            function.shared.kernel |= built_in == "curtask"
            function.declare(name.id, name.type, _BUILT_INS[built_in])
        case Memory():
            assert step.address is not None
            address = computed(function, step.address)
            value = function.declare(name.id, name.type, "0")
            function.reads_memory = True
            function.leave_unreadable(call(_reader(function, step), f"&{value}", f"sizeof({value})", address))
        case Bytes(size=size):
            assert step.address is not None
            address = computed(function, step.address)
            length = None if step.length is None else computed(function, step.length)
            buffer = function.home(name)
            zero(function, buffer, from_word=0 if length is not None else size // 8)
            function.reads_memory = True
            if length is not None:
                function.leave_unreadable(call("failed", call("read_part", buffer.address(0), size, address, length)))
                return
            function.leave_unreadable(call(_reader(function, step), buffer.address(0), size, address))
        case Text() | UserStack() | KernelStack():
            home = function.placement.homes.get(name.id)
            if isinstance(home, Leaf):
                _into_record(function, step, home)
            elif isinstance(step.source, Text):
                buffer = function.home(name)
                place = _place(function, step)
                clear(function, buffer)
                set_used(function, buffer, f"{_text(function, step, buffer.address(0), *place)}")
                function.read_texts.add(name.id)
            else:
                _stack_into(function, step, function.home(name))


def _holding(function: CFunction, step: Fetch) -> int | None:
    """The argument that is read from, where it is a part of the hit, no memory of the process."""
    assert isinstance(step.source, InMemory)
    base = step.source.base
    if not isinstance(base, Argument):
        return None
    operand = function.variant.args[base.index].operand
    return base.index if isinstance(operand, OwnOperand) and operand.held else None


def _reader(function: CFunction, step: Fetch) -> str:
    return "read_user" if _holding(function, step) is None else "read_held"


def _place(function: CFunction, step: Fetch) -> tuple[C, C | None]:
    """The address of a string, and the size that the program gives: names or constants."""
    assert step.address is not None and isinstance(step.source, Text)
    address = function.once("address", computed(function, step.address))
    if step.length is not None:
        return address, function.once("size", computed(function, step.length))
    return address, C(f"{step.source.size}") if step.source.sized else None


def _text(function: CFunction, step: Fetch, to: str, address: C, measure: C | None) -> C:
    """Reads a string; the name of its length, the NUL counted."""
    assert isinstance(step.source, Text)
    size = step.source.size
    function.reads_memory = True
    holding = _holding(function, step)
    held = holding is not None
    bound = None if holding is None else function.context.held_bytes(function, holding)
    if bound is not None:
        # A string that fills its bytes ends without a NUL, before what is another field's.
        bound = function.once("bound", C(f"{bound} + 1", "u64"))
        measure = bound if measure is None else function.once("size", C(f"({measure} < {bound} ? {measure} : {bound})"))
    if measure is None:
        reader = "read_held_text" if held else "read_user_text"
        length = function.temporary("length", call(reader, to, size, address), "s64")
    else:
        reader = "read_held_sized" if held else "read_sized_text"
        length = function.temporary("length", call(reader, to, size, address, measure), "s64")
    function.leave_unreadable(call("failed", length))
    if not step.source.sized:
        told = "0" if step.once is None else f"told{step.once}"
        noted = "" if step.once is None else f"{told} = "
        if measure is not None:
            function.line(f"if ({measure} > {size})")
        checker = "check_held" if held else "check_cut"
        function.line("\t" * (measure is not None) + f"{noted}{checker}({length}, {size}, {address}, {told});")
    return length


def _frames(function: CFunction, to: str, whose: str, type: StackType) -> C:
    """Walks the stack, and says `whose` it is; the name of the length in bytes."""
    if type.kernel:
        function.line(f"{whose} = 0;")
        # Below 0 where the hit is not in the kernel, as at a uprobe: it has no frame there.
        length = function.temporary("length", call("user_stack", "ctx", to, 8 * type.frames, 0), "s64")
        function.line(f"if ({length} < 0) {length} = 0;")
        return length
    length = _native_frames(function, to, whose, type.frames)
    if type.interpreted:
        function.reads_memory = True
        walked = call("walk_python", f"(u64 *)({to})", length, type.frames, "control->wakeup")
        return function.temporary("length", walked, "s64")
    return length


def _native_frames(function: CFunction, to: str, whose: str, frames: int) -> C:
    if function.shared.unwinds:
        space, state = function.temporary("space", call("space_id")), function.temporary("state", C("0"))
        walker, registers = ("walk_stopped", ()) if function.context.stopped else ("walk_stack", ("ctx",))
        walked = call(walker, *registers, f"(u64 *)({to})", frames, space, "control->wakeup", f"&{state}")
        length = function.temporary("length", walked, "s64")
        function.line(f"{whose} = (u32){space} | {state} << 32;")
        return length
    function.line(f"{whose} = process_id();")
    length = function.temporary("length", call("user_stack", "ctx", to, 8 * frames, "USER_STACK"), "s64")
    with function.block(f"if ({length} < 0)"):
        function.line("lose(LOST_STACKS);")
        function.line(f"{length} = 0;")
    return length


def _stack_into(function: CFunction, step: Fetch, to: Buffer) -> None:
    assert isinstance(step.name.type, StackType)
    frames = to.behind(2)
    clear(function, frames)
    length = _frames(function, frames.address(0), to.word(0), step.name.type)
    function.line(f"{to.word(1)} = {length};")
    set_used(function, frames, f"{length}")


def _into_record(function: CFunction, step: Fetch, leaf: Leaf) -> None:
    sending = records.reach(function, leaf)
    place = f"(char *){sending.to} + {sending.end}"
    if isinstance(step.source, Text):
        length = _text(function, step, place, *_place(function, step))
        function.line(f"{sending.to}[{leaf.word}] = {length};")
        records.advance(function, sending, length, step.source.size)
    else:
        assert isinstance(step.name.type, StackType)
        if step.name.type.interpreted:
            function.line(f"clear_native((u64 *)({place}), {step.name.type.frames});")
        length = _frames(function, place, f"{sending.to}[{leaf.word}]", step.name.type)
        function.line(f"{sending.to}[{leaf.word + 1}] = {length};")
        records.advance(function, sending, length, 8 * step.name.type.words)
