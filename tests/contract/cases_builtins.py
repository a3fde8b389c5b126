"""Built-ins, strings and memory of the target, printf and time.

What differs from run to run is asked about in ways that do not.
"""

from __future__ import annotations

import time
from collections import Counter

from tests.contract.case import Case, by_hand, said
from tests.contract.depot import COLD, HUGE, LABELS, rounds
from tests.contract.expect import NOTHING, Out, keyed, printf, scalar, time as time_out, together

R = rounds()

BOOT_YEAR = time.strftime("%Y", time.localtime(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)))


def labels_with(text: str, kinds: list[int]) -> Out:
    """One printf for each kind of label: its number and its text put into `text`."""
    return together(printf(text % (kind, LABELS[kind] or "")) for kind in kinds)


CASES = [
    Case("comm", 'usdt:T:depot:plain /comm == "depot"/ { @[comm] = count(); }', keyed("@", {"depot": 40})),
    Case("pid_is_tid_in_one_thread", "usdt:T:depot:plain /pid == tid && pid > 1/ { @ = count(); }", scalar("@", 40)),
    Case("pid_is_cpid", "usdt:T:depot:plain { @[pid == cpid] = count(); }", keyed("@", {True: 40})),
    Case(
        "one_pid_one_key",
        'usdt:T:depot:plain { @[pid, tid] = count(); } END { printf("%d\\n", len(@)); clear(@); }',
        printf("1\n"),
        probes=2,
    ),
    Case("cpu", "usdt:T:depot:plain /cpu < 4096/ { @ = count(); }", scalar("@", 40)),
    Case(
        "nsecs_never_goes_back",
        "usdt:T:depot:plain { if (nsecs < @last) { @back = count(); } @last = nsecs; @n = count(); } END {"
        " clear(@last); }",
        scalar("@n", 40),
        probes=2,
    ),
    Case(
        "elapsed_is_short",
        "usdt:T:depot:plain /elapsed > 0 && elapsed < 600000000000/ { @ = count(); }",
        scalar("@", 40),
    ),
    Case(
        "latency_by_thread",
        "uprobe:T:price { @start[tid] = nsecs; }"
        " uretprobe:T:price /@start[tid]/ { $d = nsecs - @start[tid]; if ($d < 10000000000) { @sane = count(); }"
        " delete(@start, tid); }",
        scalar("@sane", 40),
        probes=2,
    ),
    Case(
        "values_may_be_called",
        "usdt:T:depot:plain /pid() == pid && __builtin_comm == comm() && nsecs() > 0/ { @ = count(); }",
        scalar("@", 40),
    ),
    Case(
        "the_machine",
        "usdt:T:depot:plain /cpu < ncpus && numaid < ncpus && usermode == 1 && leader_tid == pid/ { @ = count(); }",
        scalar("@", 40),
    ),
    Case(
        "rand_is_another_number_each_time",
        "usdt:T:depot:plain { if (rand == rand && rand == rand) { @same = count(); } if (rand < (1 << 32)) {"
        " @small = count(); } }",
        scalar("@small", 40),
    ),
    Case(
        "probetype",
        "uprobe:T:price, uretprobe:T:sign_of, usdt:T:depot:plain { @[probetype] = count(); } BEGIN {"
        " @[probetype] = count(); } END { @[probetype] = count(); }",
        keyed("@", {"special": 2, "uprobe": 40, "uretprobe": 40, "usdt": 40}),
        probes=5,
    ),
    Case(
        "other_clocks",
        "usdt:T:depot:plain { $boot = nsecs; $s = (uint64)1000000000; if (nsecs(monotonic) < $boot + $s &&"
        " nsecs(tai) > $boot + $s && nsecs(tai) / $s - nsecs(sw_tai) / $s < 2 && nsecs(boot) >= $boot) {"
        " @ = count(); } }",
        scalar("@", 40),
    ),
    Case(
        "numbers_of_both_namespaces",
        "usdt:T:depot:plain /pid(init) == pid(curr_ns) && tid(init) == tid/ { @ = count(); }",
        scalar("@", 40),
    ),
    Case(
        "delete_as_a_value",
        "uprobe:T:price { @a[tid] = 1; if (delete(@a, tid)) { @there = count(); } if (!delete(@a, tid)) {"
        " @gone = count(); } @h[tid] = hist(arg1); if (delete(@h, tid)) { @some = count(); } }",
        scalar("@gone", 40) + scalar("@some", 40) + scalar("@there", 40),
    ),
    Case(
        "find_sets_a_variable",
        "uprobe:T:price { $v = 0; if (find(@last, tid, $v)) { @n = count(); @sum = sum($v); } @last[tid] = 3;"
        " find(@last, tid, $v); @now = sum($v); } END { clear(@last); }",
        scalar("@n", 39) + scalar("@now", 120) + scalar("@sum", 117),
        probes=2,
    ),
    Case(
        "frames_of_a_stack",
        "uprobe:T:price { @[len(ustack(1)), len(ustack) > 1] = count(); }",
        keyed("@", {(1, True): 40}),
        refused={"bcc": "stack"},
    ),
    Case(
        "frames_of_a_stack_by_frame_pointers",
        "config = { stack_unwind = fp } uprobe:T:price { @[len(ustack(1)), len(ustack) > 1] = count(); }",
        keyed("@", {(1, True): 40}),
    ),
    Case(
        "symbols_are_compared_by_address",
        "uprobe:T:price { @[usym(arg0) == usym(arg0), usym(arg0) != usym(arg0 + 1)] = count(); }",
        keyed("@", {(True, True): 40}),
    ),
    Case(
        "times_of_day_as_keys",
        'uprobe:T:price { @[strftime("%Y", nsecs) == strftime("%Y", nsecs), strftime("%Y", 0)] = count(); }',
        by_hand(f"@[true, {BOOT_YEAR}]: 40\n", f'{{"type": "map", "data": {{"@": {{"true,{BOOT_YEAR}": 40}}}}}}'),
    ),
    Case(
        "strings_joined",
        'usdt:T:depot:parcel { @[str_concat("<", str_concat(str(arg1, 64), ">"))] = count(); $s = comm; @l ='
        ' sum(strlen(str_concat($s, str_concat(str(arg1), "!")))); if (str_concat($s, "") == comm) { @n = count(); } }',
        keyed("@", Counter(f"<{r.item}>" for r in R)) + scalar("@l", sum(6 + len(r.item.encode()) for r in R))
        + scalar("@n", 40),
    ),
    Case(
        "strings_in_reverse",
        'BEGIN { $s = "shop"; printf("%s|%s|%s\\n", strrev($s), strrev(strrev(str_concat($s, "s"))), strrev("")); }'
        ' usdt:T:depot:parcel { @[strrev(str(arg1 + 2))] = count(); @held = str(arg1 + 2, 9);'
        ' @two[strrev(@held), strrev("ab")] = count(); if (strrev(comm) == "toped") { @n = count(); } }'
        f" usdt:T:depot:label /arg0 == {HUGE}/ {{ @cut = strrev(str(arg1)); }} END {{ @end = strrev(@held); }}",
        printf("pohs|shops|\n") + keyed("@", Counter(r.item.encode()[:1:-1] for r in R))
        + scalar("@cut", f"{LABELS[HUGE]}"[1022::-1]) + scalar("@end", R[-1].item.encode()[2:10][::-1])
        + scalar("@held", R[-1].item.encode()[2:10]) + scalar("@n", 40)
        + keyed("@two", Counter((r.item.encode()[2:10][::-1], "ba") for r in R)),
        probes=4,
        truncated=1,
    ),
    Case(
        "errors_of_system_calls",
        "uprobe:T:price { $n = (int64)arg1; $n = $n - $n; @[is_err($n), is_err($n - 1), is_err($n - 4095),"
        " is_err($n - 4096), is_err((int8 *)-22)] = count(); }",
        keyed("@", {(False, True, True, False, True): 40}),
    ),
    Case(
        "user_names_compared",
        "usdt:T:depot:plain { $u = username; @[$u == $u, $u != $u] = count(); }",
        keyed("@", {(True, False): 40}),
        refused={"ftrace": "username"},
    ),
    Case(
        "names_of_clauses_in_user_space",
        "BEGIN { @[probe] = count(); } interval:2ms { @[probe] = count(); exit(); } END { @[probe] = count(); }",
        keyed("@", {"begin": 1, "end": 1, "interval:us:2000": 1}),
        probes=3,
        target=None,
    ),
    Case(
        "constants_as_hardware_addresses",
        "usdt:T:depot:plain { @[macaddr((uint8[6])1)] = count(); }",
        keyed("@", {"01:00:00:00:00:00": 40}),
    ),
    said("no_symbol_at_all", 'BEGIN { printf("%s\\n", usym(0)); exit(); }', "0"),
    Case(
        "words_of_signals",
        "uprobe:T:price { $n = (int64)arg1; @[signal_name($n - $n + 9), signal_name($n - $n - 1)] = count(); }",
        keyed("@", {("Killed", "N/A"): 40}),
    ),
    said(
        "what_needs_no_hit",
        'BEGIN { @a[1] = 5; $v = 0; printf("%d\\n", find(@a, 1, $v)); printf("%d\\n", $v);'
        ' printf("%d\\n", delete(@a, 1));'
        ' printf("%d\\n", delete(@a, 1)); exit(); }',
        "1\n5\n1\n0",
    ),
    Case(
        "buffers",
        'usdt:T:depot:parcel /strncmp(str(arg1), "\\xc3", 1)/ {'
        " @[buf(arg1, 4)] = count(); @two = buf(arg1, 2); @two = buf(str(arg1), 9);"
        " $n = (uint64)1; if (buf(arg1, $n) == buf(arg1, 1)) { @same = count(); } } END { clear(@two); }",
        keyed("@", Counter(r.item[:4] for r in R if r.item.isascii()))
        + scalar("@same", sum(r.item.isascii() for r in R)),
        probes=2,
    ),
    Case(
        "bytes_compared",
        'usdt:T:depot:parcel { @[memcmp(str(arg1), "copper", 6) == 0, memcmp("abc", str(arg1), 0),'
        " memcmp(arg0 - arg0, arg0 - arg0 + 1, 8)] = count(); }",
        keyed("@", Counter((r.item.startswith("copper"), 0, -1) for r in R)),
    ),
    Case(
        "addresses",
        "usdt:T:depot:plain { $n = arg0 - arg0; @[ntop($n + 0x0100007f), ntop(pton(\"fe80::1\")),"
        " ntop((uint8[4])(uint32)($n + 1))] = count(); }",
        keyed("@", {("127.0.0.1", "fe80::1", "1.0.0.0"): 40}),
    ),
    said(
        "bytes_that_need_no_hit",
        'BEGIN { printf("%r|%5r|%rx|%rh\\n", buf("a\\0b", 3), buf("x", 1), buf("Hi\\0", 3), buf("Hi\\0", 3));'
        ' printf("%s\\n", pton("1.2.3.4")); printf("%d\\n", memcmp("\\xff", "a", 1)); exit(); }',
        "a\\x00b|    x|\\x48\\x69\\x00|48 69 00\n[1,2,3,4]\n-98",
    ),
    Case("uid", "usdt:T:depot:plain /uid == 0/ { @ = count(); }", scalar("@", 40), refused={"ftrace": "uid"}),
    Case("gid", "usdt:T:depot:plain { @[gid] = count(); }", keyed("@", {0: 40}), refused={"ftrace": "gid"}),
    Case(
        "username",
        "usdt:T:depot:plain { @[username] = count(); }",
        keyed("@", {"root": 40}),
        refused={"ftrace": "username"},
    ),
    Case(
        "owner_in_begin",
        'BEGIN { printf("%d %d %s\\n", uid, gid, username); exit(); }',
        printf("0 0 root\n"),
        target=None,
    ),
    Case(
        "func",
        "uprobe:T:sign_of, uretprobe:T:price, usdt:T:depot:plain { @[func] = count(); }",
        keyed("@", {"plain": 40, "price": 40, "sign_of": 40}),
        probes=3,
    ),
    Case(
        "probe_in_printf",
        'uprobe:T:weigh, uretprobe:T:weigh { printf("%s\\n", probe); }',
        printf("uprobe:T:weigh\n") + printf("uretprobe:T:weigh\n"),
        probes=2,
    ),
    Case(
        "strings_of_every_kind",
        f'usdt:T:depot:label /arg0 != {HUGE}/ {{ printf("%d [%s]\\n", arg0, str(arg1)); }}',
        labels_with("%d [%s]\n", [kind for kind in range(len(LABELS)) if kind != HUGE]),
        cold=labels_with("%d [%s]\n", [kind for kind in range(len(LABELS)) if kind not in (HUGE, COLD)]),
    ),
    Case(
        "a_string_on_a_page_that_nobody_touched",
        f"usdt:T:depot:label /arg0 == {COLD}/ {{ @[str(arg1)] = count(); }}",
        keyed("@", {"a page nobody touched": 1}),
        cold=NOTHING,
    ),
    Case(
        "a_string_longer_than_the_buffer",
        f'usdt:T:depot:label /arg0 == {HUGE}/ {{ printf("%s\\n", str(arg1)); }}',
        printf(f"{LABELS[HUGE]}"[:1023] + "\n"),
        truncated=1,
    ),
    Case(
        "a_string_of_a_given_size",
        f'usdt:T:depot:label /arg0 == {HUGE} || arg0 == 0/ {{ printf("[%s] [%s]\\n", str(arg1, 4), str(arg1, 100)); }}',
        printf("[tou] [touched]\n") + printf(f"[012] [{f'{LABELS[HUGE]}'[:99]}]\n"),
    ),
    Case(
        "a_string_of_a_size_known_at_the_hit",
        'usdt:T:depot:parcel { @[str(arg1, arg2)] = count(); if (str(arg1, arg2 + 1) == "co") { @two = count(); }'
        " @other = sum(strncmp(str(arg1, arg2), str(arg1), 1)); }",
        keyed("@", Counter(r.item.encode()[: max(r.zone - 1, 0)] for r in R))
        + scalar("@other", sum(r.zone < 2 for r in R))
        + scalar("@two", sum(r.item == "copper wire" and r.zone == 2 for r in R)),
    ),
    Case(
        "a_size_beyond_max_strlen_is_as_none",
        f"usdt:T:depot:label /arg0 != {COLD}/ {{ @[arg0] = strlen(str(arg1, arg0 * 1000)); }}",
        keyed(
            "@",
            {
                kind: min(len((text or "").encode()), max(kind * 1000 - 1, 0), 1023)
                for kind, text in enumerate(LABELS)
                if kind != COLD
            },
        ),
        truncated=1,
    ),
    Case(
        "a_cut_string_counts_once",
        f"usdt:T:depot:label /arg0 == {HUGE}/ {{ @[str(arg1)] = count(); @n = sum(strlen(str(arg1)));"
        " $i = 0; while ($i < 3) { $i++; @m = max(strlen(str(arg1))); } }"
        " END { clear(@); }",
        scalar("@m", 1023) + scalar("@n", 1023),
        probes=2,
        truncated=1,
    ),
    Case(
        "an_unreadable_string_ends_the_clause",
        "usdt:T:depot:stray { @before = count(); @[str(arg1)] = count(); @after = count(); }",
        scalar("@before", 1),
        unreadable=1,
    ),
    Case(
        "an_unreadable_string_that_nobody_needs",
        "usdt:T:depot:stray { if (arg0 == 2) { @[str(arg1)] = count(); } @after = count(); }",
        scalar("@after", 1),
    ),
    Case(
        "memory_through_a_pointer",
        'uprobe:T:weigh { printf("%d %u %d %s\\n", *(int32 *)arg0, *(uint16 *)(arg0 + 4), *(int8 *)(arg0 + 6),'
        " str(*(uint64 *)(arg0 + 8))); }",
        printf("-1234 50000 -3 world\n"),
    ),
    Case(
        "strings_of_function_arguments",
        "uprobe:T:greet { @[str(arg0), (int32)arg1] = count(); }",
        keyed("@", {("depot", 2): 1, ("", 3): 1}),
    ),
    Case("usym", "usdt:T:depot:callback { @[usym(arg0)] = count(); }", keyed("@", {"price": 1})),
    Case(
        "printf_with_arguments",
        'usdt:T:depot:parcel /arg0 <= 3/ { printf("parcel %d: %s x%d = %d.%02d (%d)\\n", arg0, str(arg1), arg2,'
        " arg3 / 100, arg3 % 100, (int32)arg4); }",
        together(
            printf(f"parcel {r.id}: {r.item} x{r.zone} = {r.weight // 100}.{r.weight % 100:02d} ({r.delta})\n")
            for r in R[:3]
        ),
    ),
    said(
        "printf_conversions",
        'BEGIN { printf("[%d|%u|%x|%X|%o|%c|%s|%5s|%-5s|%05d|%+d|%ld|%llu|%%]\\n",'
        ' -1, 1, 255, 255, 8, 65, "s", "ab", "cd", 42, 7, -5, 9); exit(); }',
        "[-1|1|ff|FF|10|A|s|   ab|cd   |00042|+7|-5|9|%]",
    ),
    said(
        "printf_bases_and_widths",
        'BEGIN { printf("%#x %#o %016x %p [%8d] [%-8d] [%8x]\\n", 255, 8, 48879, 4096, 42, 42, 42); exit(); }',
        "0xff 010 000000000000beef 0x1000 [      42] [42      ] [      2a]",
    ),
    said(
        "printf_booleans",
        'BEGIN { printf("%d %s\\n", 1 == 1, 1 == 2); exit(); }',
        "1 false",
    ),
    said(
        "printf_escapes",
        'BEGIN { printf("tab\\tquote\\"back\\\\slash\\x41\\101\\n"); exit(); }',
        'tab\tquote"back\\slashAA',
    ),
    said("printf_utf8", 'BEGIN { printf("%s – ☕ [%6s]\\n", "naïve", "ab"); exit(); }', "naïve – ☕ [    ab]"),
    Case(
        "printf_in_a_probe_with_widths",
        'usdt:T:depot:parcel /arg0 <= 2/ { printf("[%-12s|%12s|%6d|%-6d|%06x]\\n", str(arg1), str(arg1), arg3,'
        " (int32)arg4, arg3); }",
        together(printf(f"[{r.item:<12}|{r.item:>12}|{r.weight:6d}|{r.delta:<6d}|{r.weight:06x}]\n") for r in R[:2]),
    ),
    Case("time", 'BEGIN { time("at %% or so\\n"); exit(); }', time_out("at % or so\n"), target=None),
    Case("time_in_a_probe", 'usdt:T:depot:parcel /arg0 == 1/ { time("now\\n"); }', time_out("now\n")),
    said("strftime", 'BEGIN { printf("%s\\n", strftime("%Y", 0)); exit(); }', BOOT_YEAR),
    Case(
        "strftime_in_a_probe",
        'usdt:T:depot:parcel /arg0 == 1/ { printf("%s\\n", strftime("%Y [%%]", nsecs)); @ = count(); }',
        printf(time.strftime("%Y [%%]\n")) + scalar("@", 1),
    ),
    Case(
        "ustack",
        "usdt:T:depot:nested { @[ustack(3)] = count(); }",
        # Offsets are the compiler's; the harness leaves them out.
        Out(
            b"@[\n        inner+N\n        middle+N\n        outer+N\n]: 1\n",
            (b'{"type": "map", "data": {"@": {"\\n        inner+N\\n        middle+N\\n        outer+N\\n": 1}}}\n',),
        ),
    ),
    Case(
        "symbols_in_printf",
        'usdt:T:depot:callback { printf("%s %s\\n", usym(arg0), usym(123)); }',
        printf("price 0x7b\n"),
    ),
    Case(
        "stacks_as_values",
        "usdt:T:depot:nested { @s = ustack(2); print(ustack(1)); @k[ustack(1), comm] = count(); }",
        Out(
            b"\n        inner+N\n\n@k[\n        inner+N\n, depot]: 1\n@s: \n        inner+N\n        middle+N\n\n",
            (
                b'{"type": "value", "data": "\\n        inner+N\\n"}\n',
                b'{"type": "map", "data": {"@k": {"\\n        inner+N\\n,depot": 1}}}\n',
                b'{"type": "map", "data": {"@s": "\\n        inner+N\\n        middle+N\\n"}}\n',
            ),
        ),
    ),
    Case(
        "a_string_cut_by_the_configuration",
        "config = { max_strlen = 16 } usdt:T:depot:label /arg0 == 4/ { @[str(arg1)] = count(); }",
        keyed("@", {"abcdefghijklmno": 1}),
        truncated=1,
        max_strlen=16,
    ),
    Case(
        "a_long_string_as_key",
        f"usdt:T:depot:label /arg0 == {HUGE}/ {{ $s = str(arg1); @[$s, arg0] = count(); @last = $s; }}",
        keyed("@", {(f"{LABELS[HUGE]}"[:1023], HUGE): 1}) + scalar("@last", f"{LABELS[HUGE]}"[:1023]),
        truncated=1,
    ),
    Case(
        "a_long_answer_in_order",
        'usdt:T:depot:plain { printf("%d\\n", arg0); }',
        together(printf(f"{n}\n") for n in range(1, 2001)),
        rounds=2000,
    ),
    Case(
        "many_keys",
        "usdt:T:depot:plain { @[arg0] = count(); @two[arg0 % 2, arg0 / 100] = sum(arg0); }",
        keyed("@", {n: 1 for n in range(1, 2001)})
        + keyed(
            "@two",
            {
                key: sum(n for n in range(1, 2001) if (n % 2, n // 100) == key)
                for key in {(n % 2, n // 100) for n in range(1, 2001)}
            },
        ),
        rounds=2000,
    ),
]
