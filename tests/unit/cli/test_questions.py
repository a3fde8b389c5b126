"""The commands for the usual questions: each writes a program, and no word of the line gets out of its place in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.loaded import loaded
from tracer.cli.app import main
from tracer.errors import Source
from tracer.lang.syntax.parser import parse

PROGRAMS: dict[tuple[str, ...], str] = {
    ("count", "libc:malloc"): "uprobe:libc:malloc { @ = count(); }\n",
    ("count", "libc:mem*"): "uprobe:libc:mem* { @[func] = count(); }\n",
    ("count", "lib*:malloc"): "uprobe:lib*:malloc { @[probe] = count(); }\n",
    ("count", "libc:malloc", "uretprobe:libc:free"): (
        "uprobe:libc:malloc, uretprobe:libc:free { @[probe] = count(); }\n"
    ),
    ("count", "libc:malloc", "usdt:libc:libc:setjmp"): (
        "uprobe:libc:malloc, usdt:libc:libc:setjmp { @[probe] = count(); }\n"
    ),
    ("count", "libc:malloc", "--by", "comm, arg0 // large"): "uprobe:libc:malloc { @[comm, arg0] = count(); }\n",
    ("count", "libc:read", "--by", "retval"): (
        "config = { typed_retval = true }\nuretprobe:libc:read { @[retval] = count(); }\n"
    ),
    ("count", "libc:free", "--filter", "*(uint8*)arg0 / 2 == 3"): (
        "uprobe:libc:free / *(uint8*)arg0 / 2 == 3/ { @ = count(); }\n"
    ),
    ("count", "libc:mem*", "--top", "5"): (
        "config = { print_maps_on_exit = false }\nuprobe:libc:mem* { @[func] = count(); }\nEND { print(@, 5); }\n"
    ),
    ("count", "libc:malloc", "-i", "2m"): (
        "config = { print_maps_on_exit = false }\nuprobe:libc:malloc { @ = count(); }\n"
        'interval:s:120 { time("%H:%M:%S\\n"); print(@); clear(@); }\nEND { print(@); }\n'
    ),
    ("count", "libc:malloc", "-i", "100ms", "-n", "3", "--by", "pid", "--top", "2"): (
        "config = { print_maps_on_exit = false }\nuprobe:libc:malloc { @[pid] = count(); }\n"
        'interval:ms:100 { time("%H:%M:%S\\n"); print(@, 2); clear(@); @times++; if (@times >= 3) { exit(); } }\n'
        "END { if (@times < 3) { print(@, 2); } }\n"
    ),
    ("hist", "libc:malloc", "arg0", "--by", "comm"): (
        "uprobe:libc:malloc { @histogram[comm] = hist(arg0); @quantiles[comm] = quantiles(arg0); }\n"
    ),
    ("latency", "libc:getaddrinfo", "--by", "str(args.name)", "--top", "3"): (
        "config = { print_maps_on_exit = false }\n"
        "call:libc:getaddrinfo { @ns[str(args.name)] = hist(duration);"
        " @quantiles[str(args.name)] = quantiles(duration); }\nEND { print(@ns, 3); print(@quantiles, 3); }\n"
    ),
    ("latency", "libc:free", "call:libc:malloc", "--filter", "depth == 0"): (
        "call:libc:free, call:libc:malloc /depth == 0/"
        " { @ns[func] = hist(duration); @quantiles[func] = quantiles(duration); }\n"
    ),
    ("latency", "libc:malloc", "--slower", "10us", "--filter", "arg0 > 9 || arg0 == 1", "-s"): (
        "config = { show_stacks = true }\ncall:libc:malloc /duration > 10us && (arg0 > 9 || arg0 == 1)/\n"
    ),
    ("latency", "span:usdt:libc:libc:setjmp..uprobe:libc:free by (pid, arg0)", "--top", "2"): (
        "config = { print_maps_on_exit = false }\n"
        "span:usdt:libc:libc:setjmp..uprobe:libc:free by (pid, arg0)"
        " { @ns = hist(duration); @quantiles = quantiles(duration); }\nEND { print(@ns, 2); print(@quantiles, 2); }\n"
    ),
    ("latency", "span:uprobe:libc:malloc..uprobe:libc:free", "--slower", "1ms"): (
        "span:uprobe:libc:malloc..uprobe:libc:free /duration > 1ms/"
        ' { printf("%s %-7d %-16s %d ns\\n", strftime("%H:%M:%S", nsecs), pid, comm, duration); }\n'
    ),
    ("latency", "span:uprobe:libc:malloc..uprobe:libc:free", "--slower", "1ms", "-s"): (
        "span:uprobe:libc:malloc..uprobe:libc:free /duration > 1ms/"
        ' { printf("%s %-7d %-16s %d ns\\n%s", strftime("%H:%M:%S", nsecs), pid, comm, duration, ustack); }\n'
    ),
    ("trace", "libc:free"): (
        'uprobe:libc:free { printf("%s %-7d %-16s %s\\n", strftime("%H:%M:%S", nsecs), pid, comm, func); }\n'
    ),
    ("trace", "libc:fopen", 'a "%s"\\t', "str(arg0)", "-s"): (
        'uprobe:libc:fopen { printf("%s %-7d %-16s %s a \\"%s\\"\\t\\n%s", strftime("%H:%M:%S", nsecs), pid, comm,'
        " func, str(arg0), ustack); }\n"
    ),
    ("args", "libc:malloc", "libc:free", "--filter", "arg0"): "call:libc:malloc /arg0/\ncall:libc:free /arg0/\n",
    ("args", "libc:malloc", "--entry", "-s"): "config = { show_stacks = true }\nuprobe:libc:malloc\n",
    ("top", "libc:mem*", "libc:free", "--filter", "arg0"): (
        "config = { print_maps_on_exit = false }\n"
        "uprobe:libc:mem*, uprobe:libc:free /arg0/ { @calls[func] = count(); }\n"
        'interval:s:1 { time("%H:%M:%S\\n"); print(@calls); clear(@calls); }\nEND { print(@calls); }\n'
    ),
    ("top", "libc:read", "--value", "duration", "--by", "comm", "-i", "500ms"): (
        "config = { print_maps_on_exit = false }\n"
        "call:libc:read { @sum[comm] = sum(duration); @quantiles[comm] = quantiles(duration, 50, 99); }\n"
        'interval:ms:500 { time("%H:%M:%S\\n"); print(@sum); print(@quantiles); clear(@sum); clear(@quantiles); }\n'
        "END { print(@sum); print(@quantiles); }\n"
    ),
    ("top", "--cpu", "--filter", "cpu == 0"): (
        "config = { print_maps_on_exit = false }\n"
        "profile:hz:99 /pid && (cpu == 0)/ { @calls[pid, comm, ustack(1)] = count(); }\n"
        'interval:s:1 { time("%H:%M:%S\\n"); print(@calls); clear(@calls); }\nEND { print(@calls); }\n'
    ),
    ("stacks", "libc:malloc"): "uprobe:libc:malloc { @[ustack] = count(); }\n",
    ("stacks", "libc:malloc", "--weight", "arg0", "--by", "comm"): (
        "uprobe:libc:malloc { @[comm, ustack] = sum(arg0); }\n"
    ),
    ("syscalls", "--by", "comm", "--filter", "args.id == 3", "--top", "2"): (
        "config = { print_maps_on_exit = false }\n"
        "span:tracepoint:raw_syscalls:sys_enter..tracepoint:raw_syscalls:sys_exit"
        " /(after(args.id) == args.id || after(args.id) == -1"
        " || after(args.abi) != args.abi) && (args.id == 3)/ { @ns[comm, syscall_name(args.id, args.abi)]"
        " = sum(duration); @quantiles[comm, syscall_name(args.id, args.abi)] = quantiles(duration, 50, 99);"
        " $errno = -after(args.ret); if ($errno > 0 && $errno < 4096)"
        " { @errors[comm, syscall_name(args.id, args.abi), $errno] = count(); } }\n"
        "END { print(@errors, 2); print(@ns, 2); print(@quantiles, 2); }\n"
    ),
    ("stacks", "--on-cpu", "--by", "comm"): "profile:hz:99 /pid/ { @[comm, ustack] = count(); }\n",
    ("profile",): "profile:hz:99 /pid/ { @[ustack] = count(); }\n",
    ("profile", "--filter", "cpu == 0"): "profile:hz:99 /pid && (cpu == 0)/ { @[ustack] = count(); }\n",
    ("profile", "--hz", "49", "--python", "--by", "comm", "-c", "true"): (
        "profile:hz:49 { @[comm, ustack(python)] = count(); }\n"
    ),
    ("flame", "--probe", "libc:malloc", "--weight", "arg0"): "uprobe:libc:malloc { @[ustack] = sum(arg0); }\n",
    ("flame", "--probe", "tracepoint:sched:sched_switch", "--kernel"): (
        "tracepoint:sched:sched_switch { @[ustack, kstack] = count(); }\n"
    ),
}


@pytest.mark.parametrize("words", PROGRAMS, ids=" ".join)
def test_show_prints_the_program_of_a_command(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--show"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (PROGRAMS[words], "")
    parse(Source(shown.out))


def test_the_program_of_io_has_what_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("io", "--by", "comm", "--filter", "args.id == 0", "--slower", "10ms", "--opened", "-i", "2", "--show")
    assert main(list(words)) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    parse(Source(shown.out))
    for part in (
        "&& (duration > 10ms && (args.id == 0))/", "@bytes[comm, pid, $fd, $term, $way] = sum($moved);",
        "@errors[comm, pid, $fd, $term, $bad] = count();", "str(@name[tid])", "clear(@quantiles);",
    ):  # fmt: skip
        assert part in shown.out


@pytest.mark.parametrize("command", ["latency", "top", "flow", "syscalls", "io"])
def test_the_option_of_run_for_json_names_that_of_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "-f", "json"]) == 2
    assert "unknown option -f; tracer run has -f json; here it is --json" in capsys.readouterr().err


FLOWS = r"""
#include <setjmp.h>
#define PROBED __attribute__((noinline, noclone))
#define KEPT(x) __asm__ volatile("" : "+r"(x) : : "memory")
PROBED void quiet(long *at) { KEPT(at); }
PROBED int below(int n, int m) { quiet(0); KEPT(n); return n + m; }
PROBED int top(int n) { jmp_buf here; if (setjmp(here)) return 1; int r = below(n, 2); KEPT(r); return r; }
int main(int count, char **words) { return top(count) + !words; }
"""


def test_the_program_of_a_flow_notes_where_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So what is hit elsewhere costs no record; and no argument is read that no function has."""
    (tmp_path / "app.c").write_text(FLOWS)
    app = tmp_path / "app"
    subprocess.run(["gcc", "-w", "-O1", "-g", f"{app}.c", "-o", str(app)], check=True)
    assert main(["flow", f"{app}:top", "--filter", "arg0 > 1", "--show"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.replace(str(app), "APP").splitlines()
    here = 'time=nsecs, tid=tid, func=func, sp=reg("sp")'
    begins = f'{here}, back=*(uint64 *)reg("sp")'
    near = 'reg("sp") >= @in[tid] && reg("sp") - @in[tid]'
    address = lines[-1].partition(":0x")[2].partition(" ")[0]
    assert (lines, shown.err) == (
        [
            "config = { print_maps_on_exit = false }",
            f'uprobe:APP:top {{ if (!@in[tid] || ({near} < 262144)) {{ if (arg0 > 1) {{ @in[tid] = reg("sp"); }}'
            " else { delete(@in, tid); } }"
            f" if (@in[tid]) {{ print(({begins}, pid=pid, comm=comm, arg0=arg0, arg1=arg1)); }} }}",
            f"uprobe:APP:below, uprobe:APP:quiet /@in[tid]/ {{ print(({begins}, arg0=arg0, arg1=arg1)); }}",
            f"uretprobe:APP:below /@in[tid]/ {{ print(({here}, retval=retval)); }}",
            f"uretprobe:APP:quiet /@in[tid]/ {{ print(({here})); }}",
            f"uretprobe:APP:top /@in[tid]/ {{ print(({here}, retval=retval));"
            f" if ({near} <= 8) {{ delete(@in, tid); }} }}",
            f"uprobe:APP:0x{address} /@in[tid] && (uint32)reg(\"ax\") != 0/"
            ' { print((time=nsecs, tid=tid, sp=reg("sp") - 8, why="longjmp()"));'
            ' if (reg("sp") - 8 >= @in[tid] && reg("sp") - 8 - @in[tid] < 262144) { delete(@in, tid); } }',
        ],
        "",
    )
    parse(Source(shown.out))


_WHOLE = "; a whole program is given with -e; --show prints the one of this command"
REFUSED: dict[tuple[str, ...], str] = {
    ("count", "libc:malloc", "--filter", "1/ { exit() } /"): (
        f"--filter:1:2\n1/ {{ exit() }} /\n ^ error: the value has ended before '/'{_WHOLE}\n"
    ),
    ("count", "libc:malloc", "--filter", "1/ { exit(); } uprobe:libc:free /1"): (
        "--filter:1:2\n1/ { exit(); } uprobe:libc:free /1\n"
        f" ^ error: the value has ended before '/'{_WHOLE}\n"
    ),
    ("count", "libc:malloc", "--by", "arg0] = count(); @b[arg1"): (
        f"--by:1:5\narg0] = count(); @b[arg1\n    ^ error: the value has ended before ']'{_WHOLE}\n"
    ),
    ("hist", "libc:malloc", "arg0, 3"): f"EXPR:1:5\narg0, 3\n    ^ error: the value has ended before ','{_WHOLE}\n",
    ("stacks", "libc:malloc", "--weight", "arg0 +"): (
        "--weight:1:7\narg0 +\n      ^ error: expected an expression, found the end of the program\n"
    ),
    ("stacks", "libc:malloc", "--weight", "arg0\n#include </etc/passwd>"): (
        "--weight:1:1\narg0\n^ error: a value stands in one line; -e takes whole programs\n"
    ),
    ("count", "libc:malloc { exit(); } BEGIN"): (
        "PROBE:1:12\nlibc:malloc { exit(); } BEGIN\n           ^^^^^^^^^^^^^^^^^^ error: the probe has ended before"
        " this; a file or name with blanks or commas needs quotes of its own: '\"/my app\":\"f(int, char)\"'\n"
    ),
    ("count", "interval:s:1"): (
        "PROBE:1:1\ninterval:s:1\n^^^^^^^^ error: interval is hit by no program; -i runs at fixed times\n"
    ),
    ("latency", "tracepoint:task:task_newtask"): (
        "tracer: error: tracepoint:task:task_newtask: only functions are called;"
        " span:tracepoint:task:task_newtask..PROBE is what lies between two\n"
    ),
    ("trace", "libc:malloc", "\\"): (
        'FORMAT:1:1\n"\\"\n^^^ error: the string is not closed; end it with "; \\n is a newline\n'
    ),
    ("count", "arg0"): (
        "tracer: error: arg0: no probe; a function is FILE:FUNCTION, such as libc:malloc; --by EXPR counts by a value\n"
    ),
    ("args", "usdt:libc:libc:setjmp"): (
        "tracer: error: usdt:libc:libc:setjmp: the arguments of a USDT probe have no names; "
        "tracer trace usdt:libc:libc:setjmp %d arg0\n"
    ),
    ("args", "span:uprobe:libc:malloc..uprobe:libc:free"): (
        "tracer: error: span:uprobe:libc:malloc..uprobe:libc:free: the arguments of a span have no names; "
        "tracer trace span:uprobe:libc:malloc..uprobe:libc:free %d arg0\n"
    ),
    ("count",): "tracer: error: no probe; tracer count libc:malloc is one; tracer list FILE finds them\n",
    ("hist", "libc:malloc"): (
        "tracer: error: hist needs a number to look at; tracer hist libc:malloc arg0; tracer count libc:malloc counts"
        " hits\n"
    ),
    ("count", "libc:malloc", "-n", "3"): (
        "tracer: error: -n needs -i; it is how many times -i prints; --duration TIME ends a trace after so long\n"
    ),
    ("count", "libc:malloc", "-i", "1x"): (
        "tracer: error: -i 1x: no length of time; 100ms, 1s and 5m are, and 5, in seconds\n"
    ),
    ("latency", "libc:free", "--slower", "1ms) {"): (
        f"--slower:1:4\n1ms) {{\n   ^ error: the value has ended before ')'{_WHOLE}\n"
    ),
    ("latency", "libc:free", "--slower", "1ms", "--by", "pid"): (
        "tracer: error: --slower prints calls, and counts none; leave out --by, -i, -n and --top, or --slower\n"
    ),
    ("latency", "libc:free", "-s"): (
        "tracer: error: -s is for calls that are printed; --slower TIME prints those that take longer\n"
    ),
    ("latency", "usdt:libc:libc:setjmp"): (
        "tracer: error: usdt:libc:libc:setjmp: only functions are called; name one, such as libc:getaddrinfo\n"
    ),
    ("flow",): "tracer: error: no probe; tracer flow libc:malloc is one; tracer list FILE finds them\n",
    ("flow", "usdt:libc:libc:setjmp"): (
        "tracer: error: usdt:libc:libc:setjmp: only functions are called; name one, such as libc:getaddrinfo\n"
    ),
    ("flow", "libc:malloc", "--filter", "arg0 } END { exit(1)"): (
        f"--filter:1:6\narg0 }} END {{ exit(1)\n     ^ error: the value has ended before '}}'{_WHOLE}\n"
    ),
    ("flame", "--weight", "arg0"): "tracer: error: --weight needs --probe; such as --probe libc:malloc\n",
    ("flame", "--kernel"): "tracer: error: --kernel needs --probe; such as --probe libc:malloc\n",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_word_that_would_leave_its_place_is_refused_under_itself(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--show"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", REFUSED[words])


def test_what_does_not_fit_says_which_command_would_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hist", "libc:fopen", "str(arg0)"]) == 2
    assert capsys.readouterr().err == (
        "uprobe:libc:fopen { @histogram = hist(str(arg0)); @quantiles = quantiles(str(arg0)); }\n"
        "                                      ^^^^^^^^^ error: the argument of hist() must be an integer, not a "
        "string; tracer count PROBE --by EXPR counts each value of any type\n"
    )


def test_a_program_loads_nothing_of_the_commands_and_a_command_little_more(tmp_path: Path) -> None:
    plain = loaded(tmp_path, "--dry-run", "-e", "uprobe:libc:malloc { @ = count(); }")
    assert [name for name in plain.modules if "questions" in name or name.endswith("tracing.status")] == []
    shown = loaded(tmp_path, "count", "libc:malloc", "--show")
    assert shown.modules - plain.modules == {
        "cli.questions", "cli.questions.asking", "cli.questions.count", "cli.questions.text", "lang.unsupported"
    }  # fmt: skip
    assert shown.other <= plain.other
