"""Messages about what makes an answer incomplete: each line says the cause, the count and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.errors import counted
from tracer.kinds.site import in_files
from tracer.lang.typed import LOCAL_LOOP_LIMIT, LOOP_LIMIT, Arg, Builtin, Load, Str, Within
from tracer.lang.walk import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracer.lang.typed import Program
    from tracer.results.events import Loss


def loss_messages(loss: Loss, program: Program) -> list[str]:
    """Lines for stderr, without an end of line; none where nothing was lost."""
    config = program.config
    missed = _missed(program) if loss.unreadable else ""
    ends = (site for clause in program.clauses if clause.ends is not None for site in in_files(clause.sites))
    returns = bool(loss.abandoned) and any(site.is_return_probe for site in ends)
    full_inside = any(program.maps[name].inner for name in loss.full)
    causes = (
        (
            loss.events,
            "{} lost: the buffer between kernel and tracer was full, so output and maps that follow from it are"
            " incomplete; print less in the probe, or count there",
            "event",
        ),
        (
            loss.returns,
            "{} not seen: calls were nested deeper than the 64 whose returns the kernel follows in a thread; calls that"
            " longjmp or an exception ended, or that were under way at the end, are among them",
            "return",
        ),
        (loss.dropped, "{} left out: not shown yet when the trace was told to end at once", "event"),
        (
            loss.unreadable,
            "{} left out: an argument or string could not be read there; "
            f"its memory was not mapped, has to come from another process or machine, or holds no such value{missed}"
            f"{_where_it_is(program) if loss.unreadable else ''}",
            "hit",
        ),
        (
            loss.crowded,
            "{} left out: the kernel gives the strings of a hit one page, and a long one was cut there"
            " or left no room for another; give strings a size, as in str(arg0, 1024), or --backend bcc",
            "hit",
        ),
        (
            loss.busy,
            "{} left out: all memory for strings and events was in use by hits under way at the same time; give strings"
            " a size, as in str(arg0, 64), and there is room for more of them",
            "hit",
        ),
        (
            loss.shut_out,
            "{} left out, of any process: an interrupt came while a BPF program ran on that CPU, and the kernel runs no"
            " other inside one; --backend ftrace sees them",
            "hit",
        ),
        (
            loss.outrun,
            "{} not in min() or max(): other threads moved it too fast; give each CPU its own, as in @[cpu] = max(…)",
            "value",
        ),
        (
            loss.truncated,
            f"{{}} cut to {config.max_strlen - (not config.str_trunc_trailer)} bytes;"
            f" raise max_strlen, now {config.max_strlen}",
            "string",
        ),
        (
            loss.keys,
            "{} dropped: " + _full(sorted(loss.full), program),
            "map update",
        ),
        (
            loss.loops,
            f"{{}} ran out of rounds: all loops of a hit have {LOOP_LIMIT} together, those of BEGIN, END or an interval"
            f" {LOCAL_LOOP_LIMIT}; split the work",
            "hit",
        ),
        (
            loss.unseen,
            "{} left out: its end was seen, but not its beginning: the probe there was not attached yet, or no more,"
            " or the process forked in the call"
            + (", or there was no room to note it" if full_inside else ""),
            "call",
        ),
        (
            loss.abandoned,
            "{} left out: no return, as an exception, a panic, longjmp() or the end of the thread ended it"
            + (", or it was nested deeper than the 64 returns that the kernel follows in a thread" if returns else "")
            + (", or its end was among the lost events" if loss.events else ""),
            "call",
        ),
        (
            loss.orphaned,
            "{} of spans left out: no start was seen before, as it came before the trace, or is not what the span names"
            + (", or there was no room to note it" if full_inside else ""),
            "end",
        ),
        (loss.unfinished, "{} left out: the thread has ended, and no end of it was seen", "span"),
        (loss.divisions, "{} by zero: 1 is used as the result", "division"),
        (loss.stacks, "{} could not be walked: too many new ones came at once, or the thread has none", "stack"),
    )
    return [text.replace("{}", counted(count, thing)) for count, text, thing in causes if count]


def _full(maps: Sequence[str], program: Program) -> str:
    """The maps that were full, and how there is room."""
    most = program.config.max_map_keys
    if maps and all(program.maps[name].inner for name in maps):
        return "as many calls or spans were under way as are followed, and new ones were not noted; name fewer probes"
    maps = [name for name in maps if not program.maps[name].inner]
    declared = [name for name in maps if program.maps[name].most]
    remedies = [f"raise the {program.maps[name].most} of let {name} = …" for name in declared]
    if len(declared) < len(maps) or not maps:
        remedies.insert(0, f"write config = {{ max_map_keys = {4 * most} }}, it is {most} now")
    remedies.append("or delete() keys that are done with")
    *several, last = maps or ["a map"]
    who = f"{', '.join(several)} and {last} were" if several else f"{last} was"
    return f"{who} full, and new keys did not fit; {', '.join(remedies)}"


def _missed(program: Program) -> str:
    """Other reasons why hits can be left out: an index of an array that is known only at the hit; a thread that samples
    cannot name any more.
    """
    indexed = {
        clause.kind.at_hits
        for clause in program.clauses
        for part in (clause.predicate, *clause.body)
        if part is not None and any(isinstance(node, Within) for node in walk(part))
    }
    alone = " (which ends only the statement in BEGIN, END and intervals)" if False in indexed else ""
    outside = f", or an index was outside its array{alone}" if indexed else ""
    nameless = any(
        isinstance(node, Builtin) and node.name in ("pid", "tid", "comm")
        for clause in program.clauses if any(site.nameless for site in clause.sites[:1])
        for part in (clause.predicate, *clause.body) if part is not None
        for node in walk(part)
    )  # fmt: skip
    ended = ", or it was of a thread that had ended but for its last switch, which perf does not name" * nameless
    return f"{outside}{ended}"


def _where_it_is(program: Program) -> str:
    """The remedy for what a program hands to a system call on a page that is not in memory: the kernel brings it."""
    for clause in program.clauses:
        later = next((site for site in clause.sites if site.after_reading), None)
        if later is None:
            continue
        nodes = [node for part in (clause.predicate, *clause.body) if part is not None for node in walk(part)]
        reads = [node for node in nodes if isinstance(node, Str | Load)]
        field = next((leaf for node in reads for leaf in walk(node) if isinstance(leaf, Arg)), None)
        if field is not None:
            name = later.args[field.index].text
            kept = f"{later.probe} {{ @at[tid] = args.{name}; }} {later.after_reading} /@at[tid]/"
            return f"; by the return the kernel has read it: {kept} {{ print(str(@at[tid])); delete(@at, tid); }}"
    return ""
