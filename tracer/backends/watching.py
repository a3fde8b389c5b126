"""Memory that the processor watches in processes: where it is there, how it is watched, what is said where it cannot."""

from __future__ import annotations

import errno
import os
import struct

from tracer.errors import Diagnostic, ProgramError, Source, TracerError, printable
from tracer.host.maps import Mapping, mappings
from tracer.host.stat import directory
from tracer.kernel import perf
from tracer.kinds.watched import EXECUTED, Watched, misplaced
from tracer.lang.typed import Clause

_REGISTERS = 4

HIT_NS = 2000.0
"""About what a hit costs the thread, without the program that runs there."""


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


def address_in(site: Watched, pid: int) -> int:
    """The address of a site in a process. Raises `TracerError`."""
    variable = site.variable
    if variable is None:
        return site.address
    offset, code = variable.code
    for mapping in mappings(pid):
        before = offset - mapping.offset
        if mapping.executable and 0 <= before < mapping.end - mapping.start and _is_of(mapping, site, pid):
            return mapping.start + before - code + variable.address
    message = f"process {pid} has not loaded {printable(variable.shown)}"
    raise TracerError(f"{message}, so {printable(site.probe)} has no address there", "trace it with -p once it has")


def _is_of(mapping: Mapping, site: Watched, pid: int) -> bool:
    assert site.variable is not None
    identity = site.variable.identity
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
    said, hint = error.strerror or os.strerror(code), None
    if code == errno.ENOSPC:
        said = f"no debug register is free: a processor has {_REGISTERS}, for all who watch a thread"
        hint = "watch less at once, or end what uses them too (a debugger, another tracer)"
    elif code == errno.EINVAL:
        said = misplaced(address, site.length, site.access) or f"{address:#x} is no address that it takes here"
    elif code in (errno.EPERM, errno.EACCES):
        hint = "the kernel does not permit it (lockdown, a container without CAP_PERFMON)"
    elif code in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        said = f"this machine gives the kernel no debug registers ({said})"
        hint = "some virtual machines have none"
    return _under(f"{printable(site.shown)} cannot be watched: {said}", hint, site, clause, source)


def nobody(site: Watched, clause: Clause, source: Source) -> ProgramError:
    """The error where no process is named."""
    message = "a watchpoint is in the memory of a process, and none is named"
    return _under(message, "name it with -p PID, or start it with -c COMMAND", site, clause, source)


def unplaced(error: TracerError, site: Watched, clause: Clause, source: Source) -> ProgramError:
    """The error for a variable that is not there."""
    return _under(error.message, error.hint, site, clause, source)


def _under(message: str, hint: str | None, site: Watched, clause: Clause, source: Source) -> ProgramError:
    return ProgramError(source, [Diagnostic(message, clause.spans[site.point], hint)], exit_code=1)
