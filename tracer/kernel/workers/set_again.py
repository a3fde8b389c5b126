"""Breakpoints set once more, in processes whose page has lost them, or never had them though the kernel took the probe.

One more probe on a place has the kernel look at the place in the memory of a process anew (`register_for_each_vma` of
kernel/events/uprobes.c), and what it finds missing it sets. That probe counts nothing and is closed at once; the
breakpoint stays for those that the trace has there. Setting one can wait for a process that is stuck, so a process
beside does it, which nobody waits for longer than `PATIENCE_S`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable

if __name__ == "__main__":  # run by its path, isolated
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../../.."))

from tracer.dataclass import NamedTuple

PATIENCE_S = 3.0


class ProcessPlace(NamedTuple):
    """A process, and a place of a file in it: the file's device and inode, the offset, that of its semaphore (0: none),
    and whether it is the function's return.
    """

    pid: int
    path: str
    device: int
    inode: int
    offset: int
    semaphore: int
    returns: bool


def set_again(places: Iterable[ProcessPlace]) -> bool:
    """Whether the kernel has looked at each place anew. False where it does not, or takes too long."""
    from tracer.kernel.workers.spawn import agrees

    return agrees(__file__, json.dumps([list(place) for place in places]), PATIENCE_S)


def _set(place: ProcessPlace) -> bool:
    from tracer.kernel import perf
    from tracer.opening import opened

    try:
        file = opened(place.path)
    except OSError:
        return False
    try:
        status = os.fstat(file)
        if (status.st_dev, status.st_ino) != (place.device, place.inode):
            return False
        # Of a semaphore there is one for all probes of a place, or the kernel refuses the second.
        call = perf.uprobe_call(
            file, place.offset, pid=place.pid, semaphore=place.semaphore, returns=place.returns
        )
        os.close(call.make())
    except OSError:
        return False
    finally:
        os.close(file)
    return True


if __name__ == "__main__":
    os.closerange(3, 1 << 16)
    done = [_set(ProcessPlace(*words)) for words in json.loads(sys.stdin.readline())]
    os.write(1, b"true\n" if all(done) else b"false\n")
