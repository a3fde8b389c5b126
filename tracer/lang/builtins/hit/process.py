"""The process that hit the probe, and where it ran."""

from __future__ import annotations

import errno
import os
import re

from tracer.kinds.registry import KINDS
from tracer.lang import features, typed
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V, Value
from tracer.lang.types import BOOL, UINT64, CgroupPathType, StringType, UsernameType, operations
from tracer.lang.types.combine import SMALL

COMM_SIZE = 16
"""TASK_COMM_LEN of the kernel."""

_PID_MODES = ("curr_ns", "init")
_CPUS = "/sys/devices/system/cpu/possible"
_NODES = "/sys/devices/system/node"


def _typed(ctx: Lowering[V], node: typed.Builtin) -> V:
    return ctx.built_in(node.name, node.span, node.type)


def _listed(text: str) -> list[range]:
    """The numbers of a list such as `0-3,8`."""
    ends = [[int(number) for number in part.split("-")] for part in text.strip().split(",") if part]
    return [range(one[0], one[-1] + 1) for one in ends]


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""  # a kernel without NUMA, or a container without /sys


def cpus() -> int:
    """The number of CPUs that this machine can have."""
    return sum(map(len, _listed(_read(_CPUS)))) or os.cpu_count() or 1


def nodes() -> list[tuple[int, list[range]]]:
    """The NUMA nodes with the CPUs of each, the last one first."""
    names = os.listdir(_NODES) if os.path.isdir(_NODES) else []
    numbers = sorted((int(name[4:]) for name in names if re.fullmatch("node[0-9]+", name)), reverse=True)
    return [(number, _listed(_read(f"{_NODES}/node{number}/cpulist"))) for number in numbers]


def _node(ctx: Lowering[V], node: typed.Builtin) -> V:
    """`numaid`, by the CPU, which every backend knows."""
    numa_nodes, zero = nodes(), ctx.constant(0, UINT64)
    if len(numa_nodes) < 2:
        return ctx.constant(numa_nodes[0][0] if numa_nodes else 0, UINT64)
    cpu, number = ctx.once(ctx.built_in("cpu", node.span)), zero
    for node_number, some in numa_nodes:
        for part in some:
            from_first = ctx.arithmetic("-", cpu, ctx.constant(part.start, UINT64), UINT64)
            inside = ctx.compare("<", from_first, ctx.constant(len(part), UINT64))
            number = ctx.select(inside, ctx.constant(node_number, UINT64), number)
    return number


def _mode(ctx: Lowering[V], node: typed.Builtin) -> V:
    """`usermode`: events of the kernel happen in it, and what interrupts can interrupt either."""
    reads = {what for kind in KINDS.values() if kind.clause == ctx.clause.kind for what in kind.reads}
    if "mode" in reads:
        return ctx.built_in(node.name, node.span)
    return ctx.constant(int("fields" not in reads), UINT64)


def _group_at(call: Call) -> typed.Expr | None:
    from tracer.host.tables.cgroups import number_of

    (path,) = call.args
    try:
        return typed.IntLit(UINT64, call.span, number_of(path))
    except (OSError, ValueError) as error:
        missing = isinstance(error, OSError) and error.errno == errno.ENOENT
        hint = "cgroups are folders of a file system of type cgroup2, often mounted at /sys/fs/cgroup"
        call.error(f"there is no {path}" if missing else f"{path} is not a cgroup", call.spans[0], hint)
        return None


def _group_path(call: Call) -> typed.Expr:
    number, *names = call.args
    return typed.Call(CgroupPathType(*names), call.span, call.name, (number,))


def _first_number(ctx: Lowering[V], call: typed.Call) -> V:
    ctx.ask(features.FIRST_NUMBERS, f"{call.name}(init)", call.span)
    return ctx.built_in(f"first_{call.name}", call.span)


def _in_namespace(call: Call) -> typed.Expr | None:
    """`pid` and `tid` are the numbers of tracer's own namespace, which may be the first one."""
    (mode,) = call.args or ("",)
    if mode == "init":
        from tracer.host.first_namespace import in_first_pid_namespace

        if in_first_pid_namespace() is False:
            if call.context.unit.kind.at_hits:
                return typed.Call(SMALL, call.span, call.name, ())
            message = f"tracer's own {call.name}(init) is not known in this container"
            call.error(message, call.span, f"{call.name} is the number that it has here")
            return None
    return typed.Builtin(SMALL, call.span, call.name)


VALUES = (
    Value("pid", SMALL, "process ID of the program that hit the probe", "@[pid] = count();", needs=features.NUMBERS),
    Value("tid", SMALL, "thread ID of the thread that hit the probe", "@start[tid] = nsecs;", needs=features.NUMBERS),
    Value("uid", SMALL, "user ID of that process", "@[uid] = count();", needs=features.UID),
    Value("gid", SMALL, "group ID of that process", "@[gid] = count();", needs=features.UID),
    Value(
        "username", UsernameType(), "name of the user with that uid", "@[username] = count();", needs=features.UID,
        lower=lambda ctx, node: ctx.op(operations.AS, node.type, ctx.built_in("uid", node.span)),
    ),
    Value("comm", StringType(COMM_SIZE), "name of the thread that hit the probe", "@[comm] = count();", lower=_typed),
    Value("cpu", SMALL, "number of the CPU it ran on", "@[cpu] = count();"),
    Value(
        "ncpus", SMALL, "how many CPUs the machine can have", "print(ncpus);",
        lower=lambda ctx, node: ctx.constant(cpus(), UINT64),
    ),
    Value("numaid", SMALL, "number of the NUMA node of that CPU", "@[numaid] = count();", lower=_node),
    Value(
        "rand", SMALL, "random number of 32 bits", "if (rand % 100 == 0) { print(comm); }",
        lower=lambda ctx, node: ctx.random(),
    ),
    Value(
        "cgroup", UINT64, "number of the cgroup (version 2) that the process is in", "@[cgroup] = count();",
        needs=features.CGROUP,
    ),
    Value(
        "usermode", SMALL, "1 where a program hits the probe, 0 where the kernel runs for it", "@[usermode] = count();",
        lower=_mode,
    ),
    Value("jiffies", UINT64, "ticks of the kernel's clock", "print(jiffies);", needs=features.JIFFIES),
    Value(
        "leader_tid", SMALL, "thread ID of the process's first thread: its process ID", "@[leader_tid] = count();",
        needs=features.NUMBERS, lower=lambda ctx, node: ctx.built_in("pid", node.span),
    ),
    Value(
        "ppid", SMALL, "process ID of that process's parent", "@[ppid] = count();", needs=features.TASKS, lower=_typed,
    ),
    Value(
        "pcomm", StringType(COMM_SIZE), "name of the parent", "@[pcomm] = count();", needs=features.TASKS, lower=_typed,
    ),
    Value(
        "leader_comm", StringType(COMM_SIZE), "name of the process's first thread", "@[leader_comm, comm] = count();",
        needs=features.TASKS, lower=_typed,
    ),
    Value("cpid", SMALL, "process ID of the program started with -c, else 0", "print(cpid);"),
    Value(
        "has_cpid", BOOL, "whether a program was started with -c", "if (has_cpid) { print(cpid); }", shown="bool",
        lower=lambda ctx, node: ctx.compare("!=", ctx.built_in("cpid", node.span), ctx.constant(0, UINT64)),
    ),
)  # fmt: skip

_NAMESPACED = tuple(
    BuiltinFunction(
        name, "value", f"{name}([namespace])", (Parameter("mode", f"the namespace of {name}()", _PID_MODES),), None,
        "the same, as tracer's own pid namespace has it (curr_ns) or the first one (init)", f"print({name}(init));",
        "uint64", optional=1, rule=_in_namespace, lower=_first_number,
    )
    for name in ("pid", "tid")
)  # fmt: skip

FUNCTIONS = (
    *_NAMESPACED,
    BuiltinFunction(
        "cgroupid", "value", "cgroupid(path)", (Parameter("text", "the path of cgroupid()"),), None,
        "number of the cgroup that a folder of the file system stands for, as cgroup has it",
        'if (cgroup == cgroupid("/sys/fs/cgroup/user.slice")) { @ = count(); }', "uint64", rule=_group_at,
    ),
    BuiltinFunction(
        "cgroup_path", "value", "cgroup_path(number[, names])",
        (Parameter("unsigned", "the number of cgroup_path()"), Parameter("text", "the names of cgroup_path()")), None,
        "path of the cgroup with that number, in each hierarchy whose name matches: unified is version 2",
        "@[cgroup_path(cgroup)] = count();", "cgroup path", optional=1, rule=_group_path,
        lower=operations.AS,
    ),
)  # fmt: skip
