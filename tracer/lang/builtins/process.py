"""Who hit the probe."""

from __future__ import annotations

from tracer.lang.builtins.model import Value
from tracer.lang.types import StringType, UsernameType
from tracer.lang.types.combine import SMALL

COMM_SIZE = 16
"""TASK_COMM_LEN of the kernel."""

VALUES = (
    Value("pid", SMALL, "process ID of the program that hit the probe", "@[pid] = count();"),
    Value("tid", SMALL, "thread ID of the thread that hit the probe", "@start[tid] = nsecs;"),
    Value("uid", SMALL, "user ID of that process", "@[uid] = count();"),
    Value("gid", SMALL, "group ID of that process", "@[gid] = count();"),
    Value("username", UsernameType(), "name of the user with that uid", "@[username] = count();"),
    Value("comm", StringType(COMM_SIZE), "name of the thread that hit the probe", "@[comm] = count();"),
    Value("cpu", SMALL, "number of the CPU it ran on", "@[cpu] = count();"),
    Value("cpid", SMALL, "process ID of the program started with -c, else 0", "print(cpid);"),
)
