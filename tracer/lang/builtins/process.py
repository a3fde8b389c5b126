"""Who hit the probe."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.builtins.model import Lowering, V, Value
from tracer.lang.types import StringType, UsernameType
from tracer.lang.types.combine import SMALL

COMM_SIZE = 16
"""TASK_COMM_LEN of the kernel."""

def _number(ctx: Lowering[V], node: typed.Builtin) -> V:
    ctx.ask("NUMBERS", node.name, node.span)
    return ctx.built_in(node.name, node.span)


def _user(ctx: Lowering[V], node: typed.Builtin) -> V:
    ctx.ask("UID", node.name, node.span)
    return ctx.built_in(node.name, node.span)


def _user_name(ctx: Lowering[V], node: typed.Builtin) -> V:
    ctx.ask("UID", node.name, node.span)
    return ctx.op("as", node.type, ctx.built_in("uid", node.span))


def _comm(ctx: Lowering[V], node: typed.Builtin) -> V:
    return ctx.built_in(node.name, node.span, node.type)


VALUES = (
    Value("pid", SMALL, "process ID of the program that hit the probe", "@[pid] = count();", lower=_number),
    Value("tid", SMALL, "thread ID of the thread that hit the probe", "@start[tid] = nsecs;", lower=_number),
    Value("uid", SMALL, "user ID of that process", "@[uid] = count();", lower=_user),
    Value("gid", SMALL, "group ID of that process", "@[gid] = count();", lower=_user),
    Value("username", UsernameType(), "name of the user with that uid", "@[username] = count();", lower=_user_name),
    Value("comm", StringType(COMM_SIZE), "name of the thread that hit the probe", "@[comm] = count();", lower=_comm),
    Value("cpu", SMALL, "number of the CPU it ran on", "@[cpu] = count();"),
    Value("cpid", SMALL, "process ID of the program started with -c, else 0", "print(cpid);"),
)
