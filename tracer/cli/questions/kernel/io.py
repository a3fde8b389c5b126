"""`tracer io`: what programs read and write, by file."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tracer.cli.options import Asked
from tracer.cli.questions.asking import Counting, Results, question, run

if TYPE_CHECKING:
    from tracer.render.renderer import Renderer

EXAMPLE = "sudo tracer io -p 4242 -d 10"

_ENTER, _EXIT = "tracepoint:raw_syscalls:sys_enter", "tracepoint:raw_syscalls:sys_exit"

_READS = ("read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg")
_WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg")
_OTHERS = ("fsync", "fdatasync", "sync_file_range")
"""Calls whose first argument is a descriptor. All but the last return how many bytes they have moved."""
_BETWEEN = {"sendfile": (1, 0), "copy_file_range": (0, 2), "splice": (0, 2)}
"""Calls from one descriptor to another: the arguments that are these."""
_CLOSES = {"close": 0, "dup2": 1, "dup3": 1}
"""Calls that close a descriptor: the argument that is it. There is no dup2() on AArch64."""
_ALL_CLOSE = ("execve", "execveat", "close_range", "exit_group")
"""Calls that close some or all of a process."""
_OPENS = {"open": 0, "creat": 0, "openat": 1, "openat2": 1}
"""Calls that open a file by its name: the argument that is this."""
_COPIES = ("dup", "dup2", "dup3")
"""Calls that return another descriptor of what the first argument leads to."""


@question
def command(
    asked: Asked,
    counting: Counting,
    results: Results,
    slower: Annotated[
        Optional[str],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Option("--slower", metavar="TIME", help="Only calls that take longer: 10ms, 50us.", show_default=False),
    ] = None,
    opened: Annotated[
        bool, typer.Option("--opened", help="Also take names from what open() is given; needs eBPF.")
    ] = False,
) -> int:
    """Show what programs read and write: how often, how many bytes, how long calls take, for each file.

    --by comm or --by pid tells processes apart. --filter knows args.id, duration and after(args.ret).
    """
    from tracer.cli.questions.kernel.syscalls_told import as_wanted
    from tracer.render.tables.files import FileJson, FileTable

    top = counting.top
    counting.top = None  # each map has other greatest ones
    text = program(slower, opened, counting)
    tables: dict[str, Callable[..., Renderer]] = {"text": partial(FileTable, top), "json": partial(FileJson, top)}
    told = partial(as_wanted, only=frozenset((*_READS, *_WRITES, *_OTHERS, *_BETWEEN)))
    instead = {"not available with ftrace": "--opened asks for it: leave that out"} if opened else None
    return run(asked, results, text, None, instead, counting.ends_s, results_as=tables, as_wanted=told)


def program(slower: "str | None", opened: bool, counting: Counting) -> str:
    """The program. Raises `ProgramError`, `UsageError`.

    A descriptor's number is given to another file once it is closed. So each has its *term*, the times that it was
    closed before, and those that its process closed all of them; bytes count for the term at the call's entry. The
    first use of a term and its closing are told with their moments, since then its name can be found.
    """
    from tracer.cli.questions.text import UNPRINTED, Words, clause_of, expression
    from tracer.render.tables.files import BYTES, ENDED, ENDED_ALL, ERRORS, QUANTILES, USED

    key, only = counting.words()
    if slower is not None:
        longer = f"duration > {expression(slower, '--slower').text}"
        only = Words(f"{longer} && ({only.text})" if only.text else longer)
    maps = (BYTES, ERRORS, QUANTILES)
    before, after = counting.printed(*maps)
    if not before:
        before, after = UNPRINTED, f"END {{ {' '.join(f'print({name});' for name in maps)} }}\n"
    sources, sinks = ({name: ends[end] for name, ends in _BETWEEN.items()} for end in (0, 1))
    moved = (*_READS, *_WRITES, *_OTHERS, *_BETWEEN)

    # -- at the entry --
    body = [f"$epoch = @epochs[pid]; if {_is(*_ALL_CLOSE)} {{"]
    body += [f'printf("{ENDED_ALL}", nsecs, pid, $epoch); @epochs[pid]++; return; }}']
    body += [f"$fd = {_argument(0)};"]
    body += _other_places(_CLOSES)
    body += [f"if {_is(*_CLOSES)} {{ $term = ($epoch << 32) + @closed[pid, $fd];"]
    body += [f'if (@used[pid, $fd] == $term + 1) {{ printf("{ENDED}", nsecs, pid, $fd, $term); }}']
    body += ["@closed[pid, $fd]++; return; }"]
    body += _other_places(sources)
    body += [_used(USED, "@term")]
    body += [f"if {_is(*_BETWEEN)} {{", f"$fd = {_argument(0)};", *_other_places(sinks), _used(USED, "@to"), "}"]
    entry = clause_of(_ENTER, Words(_of_program(_is(*moved, *_CLOSES, *_ALL_CLOSE))), " ".join(body))

    # -- at the exit --
    kept = (f"{key.text}, " if key.text else "") + "pid, $fd, $term"
    ret = "$ret = after(args.ret); $moved = $ret > 0 ? (uint64)$ret : 0; $bad = $ret < 0 ? -$ret : 0;"
    body = [f"{ret} $fd = {_argument(0)}; $term = @term[tid];"]
    body += _other_places(sources)
    body += [f"$way = {_is(*_WRITES)} ? 1 : {_is(*_OTHERS)} ? 2 : 0; if ($way == 2) {{ $moved = 0; }}"]
    counted = f"{BYTES}[{kept}, $way] = sum($moved); {QUANTILES}[{kept}, $way] = quantiles(duration, 50, 99);"
    failed = f"if ($bad) {{ {ERRORS}[{kept}, $bad] = count(); }}"
    body += [counted, failed]
    body += [f"if {_is(*_BETWEEN)} {{", f"$fd = {_argument(0)};", *_other_places(sinks)]
    body += [f"$term = @to[tid]; $way = 1; {counted} }}"]
    body += ["delete(@term, tid);"]
    same = f"after(args.id) == args.id && {_of_program(_is(*moved))}"
    holds = Words(f"{same} && ({only.text})" if only.text else same)
    text = before + entry + clause_of(f"span:{_ENTER}..{_EXIT}", holds, " ".join(body))
    return text + (_names() if opened else "") + after


def _names() -> str:
    """The clauses that tell what a call was given that opened a file, once it has read that itself, and the copies."""
    from tracer.cli.questions.text import Words, clause_of
    from tracer.render.tables.files import COPIED, OPENED

    body = [f"@name[tid] = {_pointer(0)};"]
    second = [name for name, place in _OPENS.items() if place]
    body += [f"if {_is(*second)} {{ @name[tid] = {_pointer(1)}; }}"]
    text = clause_of(_ENTER, Words(_of_program(_is(*_OPENS, *_COPIES))), " ".join(body))
    fd = "if (args.ret >= 0) { $fd = (int32)args.ret;"
    told = f'{fd} printf("{OPENED}", pid, $fd, {_term("$fd")}, str(@name[tid])); }} delete(@name, tid);'
    text += clause_of(_EXIT, Words(f"{_is(*_OPENS)} && @name[tid]"), told)
    old = "$of = (int32)@name[tid];"
    told = f'{fd} {old} printf("{COPIED}", pid, $of, {_term("$of")}, $fd, {_term("$fd")}); }} delete(@name, tid);'
    return text + clause_of(_EXIT, Words(f"{_is(*_COPIES)} && has_key(@name, tid)"), told)


def _term(number: str) -> str:
    return f"(@epochs[pid] << 32) + @closed[pid, {number}]"


def _is(*names: str) -> str:
    """Whether the call is one of these; in brackets, as a part of a condition."""
    from tracer.lang.builtins.data.syscalls import numbers

    calls = numbers()
    terms = [f"args.id == {calls[name]}" for name in names if name in calls]
    return f"({' || '.join(terms)})" if terms else ""


def _other_places(places: Mapping[str, int]) -> list[str]:
    """`$fd` where it is not the first argument."""
    others: dict[int, list[str]] = {}
    for name, place in places.items():
        if place and _is(name):
            others.setdefault(place, []).append(name)
    return [f"if {_is(*names)} {{ $fd = {_argument(place)}; }}" for place, names in others.items()]


def _of_program(condition: str) -> str:
    """And that it is one of a 64-bit program, whose numbers these are."""
    from tracer.kinds.arch import AARCH64, native

    return condition if native() is AARCH64 else f"{condition} && args.abi == 2"


def _argument(place: int) -> str:
    return f"(int32)args.args[{place}]"


def _pointer(place: int) -> str:
    return f"(uint64)args.args[{place}]"


def _used(record: str, kept: str) -> str:
    """Keeps the term of `$fd` for the return, and tells its first use."""
    told = f'printf("{record}", pid, $fd, $term); @used[pid, $fd] = $term + 1;'
    return (
        f"$term = ($epoch << 32) + @closed[pid, $fd]; {kept}[tid] = $term;"
        f" if (@used[pid, $fd] != $term + 1) {{ {told} }}"
    )
