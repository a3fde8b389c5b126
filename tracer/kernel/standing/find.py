"""Finds all probes of the machine: those of trace events, of BPF links, and of perf events, each with the processes
that hold it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from tracer.errors import TracerError
from tracer.host.named import name_of
from tracer.host.stat import pids
from tracer.kernel.standing import Holder, Standing
from tracer.kernel.standing.links import links, queried
from tracer.kernel.tracefs import find as find_tracefs

_OURS = re.compile(r"tracer_([0-9]+)_")
_DEFINITION = re.compile(r"([pr])[0-9]*:(\S+)/(\S+) (\S+)")


def standing() -> tuple[list[Standing], list[str]]:
    """The probes, and what could not be looked at, with the reason."""
    probes: list[Standing] = []
    unknown: list[str] = []
    of_links, events = _descriptors()
    for what, look in (("trace events", _of_tracefs), ("BPF links", partial(links, of_links))):
        try:
            probes += look()
        except (OSError, TracerError) as error:
            reason = error.message if isinstance(error, TracerError) else error.strerror
            unknown.append(f"{what} are not known: {reason}")
    plain: dict[Holder, int] = {}
    linked = {(probe.kind, probe.place, probe.through) for probe in probes}
    for holder, fd in events:
        if (probe := queried(holder.pid, fd, holder)) is not None:
            if (probe.kind, probe.place, probe.through) not in linked:  # else it is the event behind a link
                probes.append(probe)
        else:
            plain[holder] = plain.get(holder, 0) + 1
    probes += [Standing("perf", "", count, "perf events", None, None, (holder,)) for holder, count in plain.items()]
    return probes, unknown


def _descriptors() -> tuple[dict[int, tuple[Holder, ...]], list[tuple[Holder, int]]]:
    """The holders of each link, by its number, and all descriptors of perf events with their holders."""
    of_links: dict[int, dict[Holder, None]] = {}
    events: list[tuple[Holder, int]] = []
    for pid in pids():
        with suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    what = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if "perf_event" in what:
                        events.append((Holder(pid, name_of(pid)), int(fd)))
                    elif "bpf_link" in what or "bpf-link" in what:
                        number = _link_number(pid, fd)
                        if number is not None:
                            of_links.setdefault(number, {})[Holder(pid, name_of(pid))] = None
    return {number: tuple(holders) for number, holders in of_links.items()}, events


def _link_number(pid: int, fd: str) -> int | None:
    with open(f"/proc/{pid}/fdinfo/{fd}") as file:
        match = re.search(r"^link_id:\s*([0-9]+)", file.read(), re.M)
    return int(match[1]) if match else None


def _of_tracefs() -> Iterator[Standing]:
    tracefs = find_tracefs()
    lines, hits = tracefs.profile()
    definitions = tracefs.written_definitions()
    for line, count in zip(definitions, hits, strict=False) if len(definitions) == len(hits) else ():
        if match := _DEFINITION.match(line):
            kind, group, event, place = match.groups()
            name = "uretprobe" if kind == "r" or place.endswith("%return") else "uprobe"
            yield Standing(name, place, 1, f"{group}/{event}", count, None, _by_name(group))
    if len(definitions) != len(hits):  # somebody defines or removes some just now
        for place, count in zip(lines, hits, strict=True):
            file, _, event = place.rpartition(" ")
            yield Standing("uprobe", file.strip(), 1, event, count, None, ())
    for event, count, missed in tracefs.kernel_profile():
        yield Standing("kprobe", "", 1, event, count, missed, ())


def _by_name(group: str) -> tuple[Holder, ...]:
    """A trace of tracer has its number in the name of its group."""
    match = _OURS.match(group)
    return (Holder(int(match[1]), name_of(int(match[1]))),) if match else ()
