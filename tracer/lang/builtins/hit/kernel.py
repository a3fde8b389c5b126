"""Stacks and symbols of the kernel."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tracer.errors import Span
from tracer.kinds.registry import kind_of, named
from tracer.lang import features, typed
from tracer.lang.builtins.hit.stacks import frames_of
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V, Value
from tracer.lang.fold import convert
from tracer.lang.types import (
    BOOL,
    STACK_MODES,
    UINT64,
    KernelSymbolType,
    NamedType,
    PointerType,
    StackType,
    operations,
)

if TYPE_CHECKING:
    from tracer.lang.scope.context import Context

MODES = STACK_MODES[:3]
"""Build-ids and interpreters are of programs."""


def noted(context: Context, name: str, span: Span) -> None:
    """Warns about a stack that is empty: a program was stopped outside of the kernel, as bpftrace has it too."""
    unit = context.unit
    if unit.reads("stack") or unit.clause.uncalled:
        return
    where = "the program is stopped outside of the kernel" if unit.reads("probe") else "it runs in tracer itself"
    hint = f"a {named('stack')} has it; ustack is the program's own"
    context.warn(f"{name} is empty in {unit.place}: {where}", span, hint)


def _of_kernel(context: Context, frames: int, mode: str = "") -> StackType:
    """The mode that the program sets for all stacks may be one that the kernel's have not."""
    wanted = mode or context.config.stack_mode
    return StackType(frames, wanted if wanted in MODES else MODES[0], kernel=True)


def _kstack(call: Call) -> typed.Expr | None:
    noted(call.context, call.name, call.span)
    frames, (mode, *_) = frames_of(call), call.args or ("",)
    return None if frames is None else typed.KStack(_of_kernel(call.context, frames, mode), call.span)


def _walked(ctx: Lowering[V], node: typed.KStack) -> V:
    assert isinstance(node.type, StackType)
    if any(kind_of(site).reads and not site.kernel_in_samples for site in ctx.clause.sites):
        ctx.ask(features.KERNEL_STACK_OF_CALLS, "kstack", node.span)
    return ctx.stack(node.type, node.span)


def _ksym(call: Call) -> typed.Expr | None:
    (address,) = call.args
    if not call.context.is_address(address):
        return None
    return typed.KSym(KernelSymbolType(), call.span, convert(address, UINT64))


def _symbol(ctx: Lowering[V], node: typed.KSym) -> V:
    return ctx.op(operations.AS, node.type, ctx.value(node.address))


def _kptr(call: Call) -> typed.Expr:
    return typed.Call(call.args[0].type, call.span, call.name, (call.args[0],))


def _kaddr(call: Call) -> typed.Expr | None:
    from tracer.host.tables.kallsyms import WITH_NAMES

    (name,) = call.args
    address, hidden = _address_of(name, _modules())
    if address is not None:
        return typed.IntLit(UINT64, call.span, address)
    if hidden:
        call.error("the kernel hides the addresses of its symbols", call.span, WITH_NAMES)
    else:
        call.error(f"the kernel has no symbol {name}", call.spans[0], "/proc/kallsyms has them all")
    return None


def _modules() -> bytes:
    """What the kernel has loaded, and where: what changes the addresses of symbols."""
    try:
        with open("/proc/modules", "rb") as file:
            # Name and address: in between stands how often each is used, which changes all the time.
            return b" ".join([word for line in file for word in line.split()[::5]])
    except OSError:  # a kernel without modules
        return b""


@lru_cache(maxsize=16)
def _address_of(name: str, modules: bytes) -> tuple[int | None, bool]:
    """A symbol's address, and whether addresses are hidden. To read the table takes 0.1 s, and a clause is checked for
    each sort of event that it has.
    """
    from tracer.host.tables.kallsyms import KernelSymbols

    symbols = KernelSymbols()
    return symbols.address_of(name), symbols.hidden


def _traced(call: Call) -> typed.Expr | None:
    if not call.context.unit.reads("fields"):
        hint = f"in a clause of a {named('fields')} it tells which threads of its fields are traced"
        call.error(f"traced() is not known in {call.context.unit.place}", call.span, hint)
        return None
    return typed.Call(BOOL, call.span, call.name, (convert(call.args[0], UINT64),))


def _task(context: Context) -> PointerType:
    kernel = context.types.kernel()
    target = None if kernel is None else kernel.to("struct task_struct")
    return PointerType(target=target or NamedType("struct task_struct"))


def _at_a_hit(context: Context, name: str, span: Span) -> bool:
    unit = context.unit
    if unit.reads("probe") or unit.reads("stack") or unit.clause.uncalled:
        return True
    context.error(f"{name} is not known in {unit.place}, which runs in tracer itself", span, "a hit has one")
    return False


VALUES = (
    Value(
        "curtask", _task, "the thread that hit, as the kernel has it: its struct task_struct",
        "print(curtask->comm);", shown="struct task_struct *", needs=features.KERNEL_MEMORY, check=_at_a_hit,
    ),
    Value(
        "kstack", lambda context: _of_kernel(context, context.config.stack_frames),
        "stack of the kernel at the hit, innermost frame first", "@[kstack] = count();", shown="kstack",
        node=typed.KStack, lower=_walked, needs=features.KERNEL_STACK,
    ),
)  # fmt: skip

FUNCTIONS = (
    BuiltinFunction(
        "kstack", "value", "kstack([mode, frames])",
        (Parameter("word", "a mode", MODES), Parameter("constant", "the number of frames of kstack()")),
        None, "stack of the kernel of at most that many frames; its mode is " + ", ".join(MODES),
        "@[kstack(5)] = count();",
        "kstack", optional=2, rule=_kstack, lower=_walked, node=typed.KStack, needs=features.KERNEL_STACK,
    ),
    BuiltinFunction(
        "kptr", "value", "kptr(pointer)", (Parameter("integer", "the argument of kptr()"),), None,
        "the pointer, of memory of the kernel", 'print(*kptr((uint64 *)kaddr("_text")));', "its own",
        rule=_kptr, needs=features.KERNEL_MEMORY, lower=operations.OF_KERNEL,
    ),
    BuiltinFunction(
        "traced", "value", "traced(tid)", (Parameter("integer", "the argument of traced()"),), BOOL,
        "whether a thread is one of those of -p, -c or --follow; true of all without these",
        "if (traced(args.next_pid)) { @ = count(); }",
        rule=_traced,
        lower=operations.TRACED, ours=True,
    ),
    BuiltinFunction(
        "ksym", "value", "ksym(addr)", (Parameter("integer", "the address of ksym()"),), KernelSymbolType(),
        "function of the kernel that holds an address", '@[ksym(kaddr("vfs_read"))] = count();',
        rule=_ksym, lower=_symbol, node=typed.KSym,
    ),
    BuiltinFunction(
        "kaddr", "value", "kaddr(symbol)", (Parameter("text", "the symbol of kaddr()"),), UINT64,
        "address of a symbol of the kernel", 'printf("%p", kaddr("vfs_read"));', rule=_kaddr,
    ),
)  # fmt: skip
