"""All kinds of probes, by name and by spelling."""

from __future__ import annotations

from typing import Final

from tracer.probes.model import AttachKind, ProbeKind
from tracer.probes.timers import BEGIN, END, INTERVAL
from tracer.probes.uprobe import UPROBE, URETPROBE
from tracer.probes.usdt import USDT

KINDS: Final[dict[AttachKind, ProbeKind]] = {
    kind.name: kind for kind in (USDT, UPROBE, URETPROBE, INTERVAL, BEGIN, END)
}
SPELLINGS: Final[dict[str, ProbeKind]] = {word: kind for kind in KINDS.values() for word in kind.spellings}
