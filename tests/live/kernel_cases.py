"""Programs over events of the kernel, and what bpftrace 0.27.1 answered to each over the same acts.

    BPFTRACE=path python -m tests.live.kernel_cases     asks it, as root, and writes kernel_answers.json

What is asked of the kernel is what bpftrace's own runtime tests ask of it; the programs are ours. Answers hold nothing
that changes from run to run: where a value does, the program says what is true of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.targets.build import build

ANSWERS = Path(__file__).with_name("kernel_answers.json")


@dataclass(frozen=True)
class Case:
    """`acts`: what the program of -c does; without any there is no -c. `ftrace`: what it refuses by name there.
    `differs`: why our answer is another, which is `ours`. `elsewhere`: it waits for another part, and is left out.
    """

    name: str
    program: str
    acts: str = ""
    options: tuple[str, ...] = ()
    ftrace: str = ""
    differs: str = ""
    ours: tuple[str, ...] = ()
    elsewhere: str = ""

    def words(self) -> list[str]:
        """The words of the command line, but for the backend."""
        command = ["-c", f"{build('acts')} {self.acts}"] if self.acts else []
        return [*self.options, *command, "-e", self.program]


_MINE = '/comm == "acts"/'
_READ = "not available with ftrace at tracepoint:"

CASES = (
    Case(
        "a return",
        f'tracepoint:syscalls:sys_exit_nanosleep {_MINE} {{ printf("%d %d\\n", args.ret, pid == tid); exit(); }}',
        "sleep",
    ),
    Case(
        "its short name, and a wildcard",
        f"t:syscalls:sys_*_nanosleep {_MINE} {{ print((probe, probetype)); }}",
        "sleep",
    ),
    Case(
        "two clauses at one event",
        f'tracepoint:syscalls:sys_enter_nanosleep {_MINE} {{ printf("one "); }}'
        f' t:syscalls:sys_enter_nanosleep {_MINE} {{ printf("two\\n"); }}',
        "sleep",
    ),
    Case(
        "fields of several events, in other places",
        f"tracepoint:syscalls:sys_enter_kill, tracepoint:syscalls:sys_enter_tkill, tracepoint:syscalls:sys_enter_tgkill"
        f" {_MINE} {{ print((args.pid == pid, args.sig)); @[probe] = count(); }}",
        "kill kill",
    ),
    Case(
        "fields by dot and by arrow",
        f"t:syscalls:sys_enter_read {_MINE} {{ print((args.count, args->count, args.fd > 2)); }}",
        "read",
    ),
    Case(
        "a field that is negative",
        't:syscalls:sys_exit_openat /comm == "acts" && args.ret < 0/ { @[args.ret] = count();'
        ' printf("%d %s %s\\n", args.ret, strerror(-args.ret), strerror(2)); }',
        "miss miss",
    ),
    Case(
        "a string of the record",
        't:sched:sched_process_exec /comm == "true"/ { print(str(args.filename)); @[str(args.filename)] = count();'
        " print(strlen(str(args.filename))); }",
        "exec",
    ),
    Case(
        "comparing the characters of a record",
        't:task:task_rename /comm == "acts" && args.newcomm == "renamed"/'
        " { print((args.oldcomm, args.newcomm)); @[args.newcomm] = count(); }",
        "rename",
    ),
    Case(
        "an array of numbers",
        't:raw_syscalls:sys_enter /comm == "acts" && args.id == 1/ { @fd = max(args.args[0]); @n = sum(args.args[2]); }'
        ' t:raw_syscalls:sys_exit /comm == "acts" && args.id == 1/ { @wrote = sum(args.ret); }',
        "write",
    ),
    Case(
        "a program of both ends",
        't:syscalls:sys_enter_write /comm == "acts" && args.fd == 77/ { @in[tid] = args.count; }'
        " t:syscalls:sys_exit_write /@in[tid]/ { @same = sum(@in[tid] == args.ret); @n = count(); delete(@in, tid); }",
        "write",
        differs="0.27.1 has the sum of a comparison as no sum",
        ours=("@n: 99", "@same: 99"),
    ),
    Case(
        "every aggregation of a field",
        't:syscalls:sys_enter_write /comm == "acts" && args.fd == 77/ { @c = count(); @s = sum(args.count);'
        " @a = avg(args.count); @mn = min(args.count); @mx = max(args.count); @st = stats(args.count);"
        " @h = hist(args.count); @l = lhist(args.count, 0, 100, 20); }",
        "write",
    ),
    Case(
        "names of system calls",
        't:raw_syscalls:sys_enter /comm == "acts" && (args.id == 35 || args.id == 62)/'
        " { @[syscall_name(args.id)] = count(); }",
        "sleep sleep kill",
    ),
    Case(
        "a map over the name",
        't:syscalls:sys_enter_openat /strcontains(comm, "act")/ { @[comm, args.flags] = count(); }',
        "read miss miss",
    ),
    Case(
        "clocks and numbers of the hit",
        f"t:syscalls:sys_enter_nanosleep {_MINE} {{ print((elapsed > 0, nsecs > 0, nsecs(monotonic) > 0,"
        " nsecs(tai) > 0, nsecs(sw_tai) > 0, numaid < ncpus, cpu < ncpus, usermode, rand < 4294967296)); }",
        "sleep",
    ),
    Case(
        "numbers in namespaces",
        f"t:syscalls:sys_enter_nanosleep {_MINE}"
        " { print((pid == pid(curr_ns), tid == tid(curr_ns), pid(init) > 0)); }",
        "sleep",
    ),
    Case(
        "ticks of the kernel's clock",
        f"t:syscalls:sys_enter_nanosleep {_MINE} {{ @at[tid] = jiffies; }} t:syscalls:sys_exit_nanosleep /@at[tid]/"
        " { print((jiffies >= @at[tid], jiffies < @at[tid] + 10000)); delete(@at, tid); }",
        "sleep",
        ftrace="jiffies is not available with ftrace: the kernel's events do not carry it; --backend bcc can",
    ),
    Case("ticks where nothing is hit", "BEGIN { print((jiffies > 0, usermode, probetype)); exit(); }"),
    Case(
        "users and groups",
        f"t:syscalls:sys_enter_nanosleep {_MINE} {{ print((uid, gid, username)); @[uid] = count(); }}",
        "sleep",
        ftrace="uid is not available with ftrace: the kernel's events carry no user and group; --backend bcc can",
    ),
    Case(
        "the cgroup",
        f"t:syscalls:sys_enter_nanosleep {_MINE} {{ print(cgroup > 0); }}",
        "sleep",
        ftrace="cgroup is not available with ftrace: the kernel's events do not carry it; --backend bcc can",
    ),
    Case(
        "addresses",
        f't:syscalls:sys_enter_nanosleep {_MINE} {{ print((ntop(0x0100007f), ntop(2, pton("127.0.0.1"))));'
        ' @[ntop(10, pton("::1"))] = count(); }',
        "sleep",
    ),
    Case(
        "text at a pointer of a system call",
        't:syscalls:sys_enter_openat /comm == "acts" && args.flags == 0/ { print(("ab", str(args.filename)));'
        " @[str(args.filename)] = count(); }",
        "miss miss read",
        ftrace=_READ,
    ),
    Case(
        "text that is cut",
        'config = { max_strlen = 6 } t:syscalls:sys_enter_openat /comm == "acts" && args.flags == 0/'
        " { print(str(args.filename)); }",
        "miss",
        ftrace=_READ,
        differs="max_strlen counts the NUL, and what is cut is counted and not marked",
        ours=("/no/s",),
    ),
    Case(
        "words of a command",
        f't:syscalls:sys_enter_execve {_MINE} {{ join(args.argv, ","); }}',
        "exec",
        ftrace=_READ,
    ),
    Case(
        "memory at a pointer",
        "struct pause { long seconds; long rest; } t:syscalls:sys_enter_nanosleep"
        f" {_MINE} {{ print(((struct pause *)args.rqtp).rest); }}",
        "sleep",
        ftrace=_READ,
    ),
    Case(
        "a signal from an event",
        f't:syscalls:sys_enter_nanosleep {_MINE} {{ print("now"); signal("SIGKILL"); }}',
        "sleep fork",
        ("--unsafe",),
        ftrace="signal() is not available with ftrace: a hit is seen after the program has gone on",
    ),
    Case(
        "a signal from a sample",
        f't:syscalls:sys_enter_nanosleep {_MINE} {{ print("never"); }} p:hz:599 {_MINE} {{ signal("SIGKILL"); }}',
        "work sleep",
        ("--unsafe",),
        ftrace="signal() is not available with ftrace: a hit is seen after the program has gone on",
    ),
    Case("a clock on each processor", "profile:hz:599 /cpu == 0/ { print((probe, probetype)); exit(); }"),
    Case("its short name", "p:ms:5 /cpu == 0/ { print(probe); exit(); }"),
    Case(
        "the processor's time of a program",
        'profile:hz:599 /comm == "acts" && usermode/ { print((usermode, pid == tid, comm)); exit(); }',
        "work",
    ),
    Case(
        "a register of what a sample interrupts",
        'profile:hz:599 /comm == "acts" && usermode/ { print((usym(reg("ip")), reg("sp") > 4096)); exit(); }',
        "work",
        ftrace="a sample does not hold the registers of what was interrupted; --backend bcc can read it",
    ),
    Case("an event of software", "software:cpu-clock:100000 /cpu == 0/ { print((probe, probetype)); exit(); }"),
    Case("another name of it", "config = { on_stack_limit = 0 } s:cpu:100000 /cpu == 0/ { print(probe); exit(); }"),
    Case(
        "samples of one program",
        f"software:cpu-clock:1000000 {_MINE} {{ @[pid] = count(); }} END {{ print(len(@)); clear(@); }}",
        "work",
    ),
    Case(
        "faults of memory", f"software:faults:1 {_MINE} {{ @ = count(); }} END {{ print(@ > 20); clear(@); }}", "work"
    ),
    Case("a name that hardware has not", 'hardware:cache-hits:10 { print("hit"); exit(); }'),
    Case("a name that software has not", "software:migrations:1 { exit(); }"),
    Case("intervals", 'interval:ms:1 { printf("%s ", probe); } i:ms:1 { print((probe, probetype)); exit(); }'),
    Case(
        "a signal to itself",
        'self:signal:SIGUSR1 { printf("one "); } self:signal:SIGUSR1 { print("two"); exit(); }'
        ' BEGIN { @own = pid; } i:ms:50 { system("kill -USR1 %d", @own); } END { clear(@own); }',
        "",
        ("--unsafe",),
    ),
    Case("an event that there is not", "t:syscalls:sys_enter_nonsense { exit(); }"),
    Case(
        "one of two that there is not",
        f't:syscalls:sys_enter_nanosleep, t:syscalls:nonsense {_MINE} {{ print("hit"); }}',
        "sleep",
    ),
    Case(
        "one left out",
        'config = { missing_probes = "warn" } t:syscalls:sys_enter_nanosleep, t:syscalls:nonsense'
        f' {_MINE} {{ print("hit"); }}',
        "sleep",
    ),
    Case("none that there is", "config = { missing_probes = warn } t:nonsense:nonsense { } t:syscalls:nonsense { }"),
    Case("the end's status", f"t:syscalls:sys_enter_nanosleep {_MINE} {{ @ = 1; exit(7); @ = 2; }}", "sleep"),
    Case(
        "branches at a hit",
        f't:syscalls:sys_enter_kill {_MINE} {{ @seen[pid] = (uint64)args.pid; if (args.pid == pid) {{ print("own"); }}'
        ' else if (args.sig == 9) { print("nine"); } for ($kv : @seen) { print($kv.0 == $kv.1); } }'
        " END { clear(@seen); }",
        "kill",
    ),
    Case(
        "a task's own structures",
        f"t:syscalls:sys_enter_nanosleep {_MINE} {{ print(curtask.pid == tid); }}",
        "sleep",
        elsewhere="kernel structs by BTF",
    ),
)


def ask(case: Case, bpftrace: str) -> dict[str, object]:
    """What bpftrace says to a case: its lines and its status, or why it refuses."""
    done = subprocess.run([bpftrace, *case.words()], capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    said = done.stderr.decode(errors="replace")
    if done.returncode and "Attached" not in said:
        errors = re.findall(r"^(?:.*: )?ERROR: (.*)", said, re.M)
        return {"refused": (errors or said.strip().splitlines()[-1:] or ["?"])[0]}
    return {"out": lines(done.stdout.decode()), **({"status": done.returncode} if done.returncode else {})}


def lines(printed: str) -> list[str]:
    """The lines of an output: those of maps in one order, the blank ones left out."""
    return [line for line in printed.splitlines() if line]


def answers() -> dict[str, dict[str, object]]:
    """What is recorded, by the name of the case."""
    recorded: dict[str, dict[str, object]] = json.loads(ANSWERS.read_text())
    return recorded


def main() -> None:
    """Asks for every case."""
    found = {case.name: ask(case, os.environ["BPFTRACE"]) for case in CASES if not case.elsewhere}
    ANSWERS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
