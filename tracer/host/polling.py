"""Waiting on descriptors by poll(2): select(2)'s sets end at descriptor 1023, and a trace can hold more."""

from __future__ import annotations

import select
from collections.abc import Iterable


def readable(descriptors: Iterable[int], timeout_s: float) -> list[int]:
    """The descriptors that can be read, have hung up or failed, after at most `timeout_s`; [] where the time is up."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(max(timeout_s, 0) * 1000)]
