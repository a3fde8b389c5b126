"""Plug-ins that switch stacks, found in the running processes of a program that does not switch stacks itself.

Greenlet, under gevent, eventlet and SQLAlchemy's asyncio, copies parts of CPython's stack away and back. A return
probe on a function of CPython's that waits meanwhile ends the process: SIGILL, or SIGABRT for what its caller then
frees (tried on 6.18 with greenlet 3.5 in Python 3.11). Coro does the same to Perl: SIGSEGV (6.57 in Perl 5.36). The
file does not show it, but its processes do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tracer.host.maps import Picture
from tracer.host.named import named
from tracer.host.stat import pids

FILTERED = "a seccomp filter that does not know of uretprobe(2) ends its process at the return (Linux 6.11 to 6.13)"

_PLUGINS = (("python", "/_greenlet.", "greenlet"), ("perl", "/Coro/State/State.so", "Coro"))
"""A part of the name of the program's or library's file, a part of the plug-in's path, and the plug-in's name."""


def switching_plugin(path: str, processes: Sequence[Picture]) -> str | None:
    """Names the plugin that a process (of these, or any) which maps the file has loaded, and that switches its stacks.
    Only files of Python and Perl are looked for: reading what all processes have mapped takes time.
    """
    plugins = [plugin for plugin in _PLUGINS if plugin[0] in os.path.basename(path)]
    if not plugins:
        return None
    try:
        inode = os.stat(path).st_ino
    except (OSError, ValueError):
        return None
    for process in processes or map(Picture, pids()):
        if inode not in process.code_inodes:
            continue
        loaded = [mapping.path for mapping in process.mappings]
        for _, part, plugin in plugins:
            if any(part in path for path in loaded):
                return f"{plugin}, which {named(process.pid)} has loaded, switches its stacks"
    return None
