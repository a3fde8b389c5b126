# mypy: ignore-errors
"""Run by gdb (`gdb -batch -x`): stops a program, or the process that gdb is attached to, where $BREAKS says, and writes
down of each stop the registers in perf's order, the stack from its pointer up, and the frames that gdb finds. Inlined
functions and tail calls have none.
"""

import os
import pickle

import gdb

REGISTERS = ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "rip", *(f"r{number}" for number in range(8, 16))]
PAGE, MOST = 4096, 65528
NO_FRAMES = (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)

for line in (
    "set pagination off",
    "set confirm off",
    "set breakpoint pending on",
    "set backtrace past-main on",
    "set backtrace past-entry on",
    "set debuginfod enabled off",
    "handle SIGUSR1 SIGUSR2 SIGALRM nostop noprint pass",
):
    gdb.execute(line)


def stop():
    frame = gdb.newest_frame()
    registers = [int(frame.read_register(name)) & (1 << 64) - 1 for name in REGISTERS]
    at, stack = registers[7], b""
    while len(stack) < MOST:
        try:
            stack += gdb.selected_inferior().read_memory(at, PAGE - at % PAGE).tobytes()
        except gdb.MemoryError:
            break
        at += PAGE - at % PAGE
    frames = []
    while frame is not None and len(frames) < 127:
        if frame.type() not in NO_FRAMES:
            frames.append(frame.pc())
        try:
            frame = frame.older()
        except gdb.error:
            break
    return registers, stack[:MOST], frames


for each in os.environ["BREAKS"].split(","):
    gdb.execute(f"break {each}")
attached = bool(gdb.selected_inferior().pid)
if attached:
    gdb.execute("continue")
else:
    gdb.execute("run")  # with what follows, the arguments of the command line were gone
left, stops, maps = int(os.environ["PASS_BY"]), [], ""
while gdb.selected_inferior().pid and len(stops) < int(os.environ["STOPS"]):
    if left:
        left -= 1
    else:
        stops.append(stop())
        with open(f"/proc/{gdb.selected_inferior().pid}/maps") as file:
            maps = file.read()
    gdb.execute("continue")
with open(os.environ["OUT"], "wb") as file:
    pickle.dump((maps, stops), file)
if gdb.selected_inferior().pid:
    gdb.execute("detach" if attached else "kill")
