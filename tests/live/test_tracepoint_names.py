"""Which events of the kernel there are, and what is said of those that there are not. Only root may know."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer

WRONG = {
    "tracepoint:sched:nosuch { }": "this kernel has no tracepoint sched:nosuch; tracer list 'tracepoint:sched:*' shows",
    "tracepoint:shed:sched_switch { }": "no tracepoint shed:sched_switch; did you mean tracepoint:sched:sched_switch?",
    "tracepoint:sched:sched_swich { }": "no tracepoint sched:sched_swich; did you mean tracepoint:sched:sched_switch?",
    "tracepoint:sched { }": "takes a system and a name; write tracepoint:SYSTEM:NAME",
    "tracepoint:sched:sched_switch { @ = args.pid; }": "sched_switch has no field 'pid'; it has prev_comm, prev_pid,",
    "tracepoint:sched:sched_switch { @ = arg0; }": "arg0 is not known in a tracepoint; arguments belong to usdt and"
    " uprobe probes; fields are args.NAME",
    "tracepoint:syscalls:sys_enter_nanosleep { @ = (struct none *)args.rqtp + 1; }": "'struct none' is not declared",
    "tracepoint:syscalls:sys_enter_nanosleep { $p = (struct none *)args.rqtp; $p++; }": "'struct none' is not declared",
    "tracepoint:sched:sched_switch { @[func] = count(); }": "func is not known in a tracepoint; func belongs to a",
    "tracepoint:syscalls:sys_enter_wri* { @ = args.buf; }": "sys_enter_writev has no field 'buf'; it has __syscall_nr,",
}


@pytest.mark.parametrize("program", WRONG)
def test_what_cannot_be_is_refused_by_name(program: str) -> None:
    done = tracer("check", "-e", program)
    assert done.status == 1 and WRONG[program] in done.err


def test_events_are_listed_with_their_fields() -> None:
    done = tracer("list", "-v", "t:sched:sched_process_exe?")
    wanted = "tracepoint:sched:sched_process_exec\n    __data_loc char[] filename\n    pid_t pid\n    pid_t old_pid\n"
    assert done.text == wanted
    done = tracer("list", "-e", "tracepoint:sched:sched_process_ex* { }")
    assert done.text == "tracepoint:sched:sched_process_exec\ntracepoint:sched:sched_process_exit\n"
    assert "tracepoint:task:task_newtask\n" in tracer("list", "tracepoint").text


def test_patterns_that_name_no_one_kind_list_events_of_the_kernel() -> None:
    assert tracer("list", "*sched_switch*").text == "tracepoint:sched:sched_switch\n"
    kinds = [line.partition(":")[0] for line in tracer("list").text.splitlines()]
    assert list(dict.fromkeys(kinds)) == ["hardware", "software", "tracepoint"]
    both = [kind for kind in kinds if kind != "tracepoint"]
    assert [line.partition(":")[0] for line in tracer("-l", "*ware:*").text.splitlines()] == both
    assert tracer("list", "s*:cpu*").text == "software:cpu:\nsoftware:cpu-clock:\nsoftware:cpu-migrations:\n"
