"""Memory that the processor watches in processes: where it is there, how it is watched, and what is said where not."""

from __future__ import annotations

import errno
import os
import struct
import time
from functools import lru_cache

from tracer.backends.sampling import FORBIDDEN, at_point
from tracer.errors import ProgramError, Source, TracerError, printable
from tracer.host.maps import Mapping, mappings
from tracer.host.stat import directory
from tracer.kernel import perf
from tracer.kernel.trials.abilities import Abilities
from tracer.kernel.trials.hit_cost import Cost
from tracer.kinds.model import InFile
from tracer.kinds.watched import EXECUTED, Watched, misplaced
from tracer.lang.typed import Clause

_REGISTERS = 4

_ASSUMED_NS, _TRIED = 2000.0, 40
"""What a hit costs where that cannot be measured, and how many are made to measure it."""


def attributes(
    site: Watched, address: int, sample_type: int = 0, read_format: int = 0, flags: int = perf.DISABLED,
    clock: int | None = None, max_stack: int = 0,
) -> perf.Attributes:  # fmt: skip
    """The attributes of the event of a site at an address of a thread. Each access is a hit."""
    length = struct.calcsize("@l") if site.access == EXECUTED else site.length
    return perf.Attributes(
        perf.TYPE_BREAKPOINT, 0, sample_type, read_format, flags | perf.DISABLED, 0, clock, max_stack, address, length,
        period=1, access=site.access,
    )  # fmt: skip


def inherited(follow: bool) -> int:
    """The flags of events that the threads to come inherit, and with `follow` the processes to come. With an exec they
    end, since there another program has that memory. Linux before 5.13 refuses them.
    """
    return perf.INHERIT | perf.REMOVE_ON_EXEC | (0 if follow else perf.INHERIT_THREAD)


def address_in(site: Watched, pid: int) -> int:
    """The address of a site in a process. Raises `TracerError`."""
    variable = site.variable
    if variable is None:
        return site.address
    memory = mappings(pid)
    for place in (*variable.copies, variable):
        offset, code = place.code
        for mapping in memory:
            before = offset - mapping.offset
            if mapping.executable and 0 <= before < mapping.end - mapping.start and _is_of(mapping, place, pid):
                return mapping.start + before - code + place.address
    message = f"process {pid} has not loaded {printable(variable.shown)}"
    raise TracerError(f"{message}, so {printable(site.probe)} has no address there", "trace it with -p once it has")


def _is_of(mapping: Mapping, place: InFile, pid: int) -> bool:
    identity = place.identity
    if mapping.file is None or mapping.file[1] != identity.inode:
        return False
    try:
        status = os.stat(f"{directory(pid)}/map_files/{mapping.key}")
    except OSError:  # which takes a privilege that reading the mappings does not
        return True
    return (status.st_dev, status.st_ino) == (identity.device, identity.inode)


def refused(error: OSError, site: Watched, address: int, clause: Clause, source: Source) -> ProgramError:
    """The error, under its attach point, for an event that the kernel does not open."""
    code = error.errno or 0
    said, hint = os.strerror(code), FORBIDDEN.get(code)
    if code == errno.EAGAIN:
        said, hint = "new threads come faster than they can be watched", "run the command again"
    elif code == errno.ENOSPC:
        said = f"no debug register is free: a processor has {_REGISTERS}, for all who watch a thread"
        hint = (
            "watch less at once, or end who else uses them; what a debugger has used in a thread stays taken"
            " until that ends"
        )
    elif code == errno.EINVAL and not Abilities.detect().inherit_thread:
        said, hint = "this kernel is too old", "Linux 5.13 can watch the threads to come too"
    elif code == errno.EINVAL:
        said = misplaced(address, site.length, site.access) or f"{address:#x} is no address that it takes here"
    elif code in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        said = f"this machine gives the kernel no debug registers ({said})"
        hint = "some virtual machines have none"
    return at_point(f"{printable(site.shown)} cannot be watched: {said}", hint, site, clause, source)


def nobody(site: Watched, clause: Clause, source: Source) -> ProgramError:
    """The error where no process is named."""
    message = "a watchpoint is in the memory of a process, and none is named"
    return at_point(message, "name it with -p PID, or start it with -c COMMAND", site, clause, source)


def unplaced(error: TracerError, site: Watched, clause: Clause, source: Source) -> ProgramError:
    """The error for a variable that is not there."""
    return at_point(error.message, error.hint, site, clause, source)


@lru_cache(maxsize=1)
def hit_cost() -> Cost:
    """The cost of a hit to the thread, without the program that runs there: a virtual machine may take fifty times as
    long as a processor. It is measured once, in this thread.
    """
    import ctypes

    memory = ctypes.c_uint64()
    event = -1
    try:
        length, access = ctypes.sizeof(memory), 2
        event = perf.open_event(
            perf.Attributes(
                perf.TYPE_BREAKPOINT, 0, config1=ctypes.addressof(memory), config2=length, period=1, access=access
            ), 0, -1,
        )  # fmt: skip
        begin = time.perf_counter_ns()
        for _ in range(_TRIED):
            memory.value = 0
        taken = time.perf_counter_ns() - begin
        hits = perf.read_count(event)[0]
    except OSError as error:
        return Cost(_ASSUMED_NS, f"no breakpoint to measure it ({error.strerror})")
    finally:
        if event >= 0:
            os.close(event)
    return Cost(taken / hits) if hits else Cost(_ASSUMED_NS, "no breakpoint was hit to measure it")
