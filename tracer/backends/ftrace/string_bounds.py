"""Whether the kernel keeps a hit's strings within the page that it has for them (CVE-2024-50067).

A kernel that does not writes what is beyond the page into its own memory, page tables for instance: with strings of
5,000 bytes Debian's 5.10.262, whose source has no repair (commit 373b9338c972), said "Bad page map", the strings'
letters in it. Linux 6.1.192, 6.12.117 and 6.18 cut them. It cannot be tried without that harm, so here alone numbers of
versions decide, and where nothing tells the answer is no.
"""

from __future__ import annotations

import os
import re

from tracer.kernel.disabled import is_disabled

UNSAFE = "TRACER_UNSAFE_STRINGS"
"""Set to 1 by a user who knows that no target's strings come near a page."""

_SIGNATURE = "/proc/version_signature"  # Ubuntu's: the release itself names no stable version there
_REPAIRED = {(6, 1): 115, (6, 6): 59}
_ALWAYS_SINCE = (6, 12)


def bounds_strings() -> bool:
    """Whether strings may be read by fetch arguments."""
    if os.environ.get(UNSAFE) == "1":
        return True
    system = os.uname()
    return not is_disabled("string_bounds") and is_repaired(f"{system.release} {system.version} {_signature()}")


def is_repaired(words: str) -> bool:
    """Whether the kernel is repaired, by what it says of its version: `6.1.0-56-amd64 #1 SMP Debian 6.1.192-2 (…)`,
    say.
    """
    for major, minor, patch in re.findall(r"(?<!\S)(\d+)\.(\d+)\.(\d+)", words):
        series = int(major), int(minor)
        if series >= _ALWAYS_SINCE or int(patch) >= _REPAIRED.get(series, 1 << 30):
            return True
    return False


def _signature() -> str:
    try:
        with open(_SIGNATURE) as file:
            return file.read()
    except OSError:
        return ""
