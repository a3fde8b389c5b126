"""Events of the kernel, samples and watched memory, as the target makes them: it gives up one page, is executed once,
and ends once; behind that page it writes `stock` and `low[2]`, once each.
"""

from __future__ import annotations

from tests.contract.case import Case
from tests.contract.depot import ROUNDS
from tests.contract.expect import Out, keyed, printf, scalar, together, value

_ENDS = "tracepoint:syscalls:sys_enter_exit_group"
_GIVES = "tracepoint:syscalls:sys_enter_madvise"


def _case(name: str, program: str, out: Out, probes: int = 1) -> Case:
    return Case(name, program, out, probes, replayed=False)


CASES = [
    _case("an_event_of_the_kernel", f"{_ENDS} {{ @ = count(); }}", scalar("@", 1)),
    _case(
        "fields_as_keys_and_values",
        f"{_GIVES} {{ @[args.behavior, args.start % 4096] = sum(args.len_in); @most = max(args.len_in); }}",
        together([keyed("@", {(4, 0): 4096}), scalar("@most", 4096)]),
    ),
    _case(
        "a_field_in_a_predicate_and_its_size",
        f"{_GIVES} /args.len_in > 4000 && args.behavior == 4/"
        " { print((sizeof(args.behavior), sizeof(args.start))); }",
        value((4, 8)),
    ),
    _case(
        "what_a_system_call_returns",
        "t:syscalls:sys_exit_madvise { @[args.ret] = count(); @low = min(args.ret); }",
        together([keyed("@", {0: 1}), scalar("@low", 0)]),
    ),
    _case(
        "elements_of_an_array_of_an_event",
        "t:raw_syscalls:sys_enter /args.args[1] == 4096 && args.args[2] == 4/ { $i = 1; @ = sum(args.args[$i]); }",
        scalar("@", 4096),
    ),
    _case(
        "characters_of_an_event",
        'tracepoint:task:task_rename { printf("%s\\n", args.newcomm); @[args.newcomm] = count();'
        ' @same = sum((uint64)(args.newcomm == "depot")); @long = max(strlen(args.newcomm)); }',
        together([printf("depot\n"), keyed("@", {"depot": 1}), scalar("@long", 5), scalar("@same", 1)]),
    ),
    _case(
        "a_string_of_an_event_whose_place_is_in_its_record",
        'tracepoint:sched:sched_process_exec { print((strcontains(args.filename, "depot"), args.pid == pid)); }',
        value((True, True)),
    ),
    _case(
        "what_is_told_of_an_event",
        f"{_ENDS} {{ print((probe, probetype, usermode, pid == tid)); }}",
        value((_ENDS, "tracepoint", 0, True)),
    ),
    _case(
        "events_whose_fields_stand_in_other_places",
        "t:syscalls:sys_enter_close, t:syscalls:sys_enter_mmap /args.fd == 3/ { @[probe] = sum(args.fd); }"
        " END { print(len(@)); clear(@); }",
        value(2),
        probes=3,
    ),
    _case(
        "an_event_after_calls_of_the_program",
        f"uprobe:T:price {{ @n += 1; }} {_ENDS} {{ print((@n, 1)); @last = @n; }} END {{ clear(@n); }}",
        together([value((ROUNDS, 1)), scalar("@last", ROUNDS)]),
        probes=3,
    ),
    _case(
        "the_times_of_two_events",
        f"{_GIVES} {{ @at[tid] = nsecs; }} t:syscalls:sys_exit_madvise /@at[tid]/"
        " { @ordered[nsecs >= @at[tid]] = count(); delete(@at, tid); }",
        keyed("@ordered", {True: 1}),
        probes=2,
    ),
    _case(
        "samples_of_what_software_counts",
        "software:faults:1 { @n = count(); @[probe, probetype] = count(); }"
        " END { print((@n > 10, len(@))); clear(@n); clear(@); }",
        value((True, 1)),
        probes=2,
    ),
    _case(
        "samples_of_a_clock",
        "profile:hz:999 { @[pid == cpid] = count(); } END { print(has_key(@, false)); clear(@); }",
        value(False),
        probes=2,
    ),
    _case(
        "a_variable_that_is_watched",
        "watchpoint:T:stock:w { @[probetype, pid == cpid, tid == pid] = count(); }",
        keyed("@", {("watchpoint", True, True): 1}),
    ),
    _case(
        "parts_of_variables_that_are_watched_one_after_another",
        'w:T:stock:w { @written = 1; } w:T:low[2]:w /@written/ { printf("%d %s\\n", @written, comm); }',
        together([printf("1 depot\n"), scalar("@written", 1)]),
        probes=2,
    ),
    _case(
        "a_watchpoint_between_an_event_and_calls_of_the_program",
        f"{_GIVES} {{ @gave = 1; }} w:T:stock:w /@gave/ {{ @wrote += 1; }}"
        " uprobe:T:six /@wrote/ { @ = count(); } END { clear(@gave); clear(@wrote); }",
        scalar("@", 1),
        probes=4,
    ),
]
