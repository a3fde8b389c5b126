"""The syntax tree: what the parser makes of the text, before any name or type is looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracer.errors import Span

AttachKind = Literal["begin", "end", "interval", "usdt", "uprobe", "uretprobe"]


@dataclass(frozen=True, slots=True)
class AttachPoint:
    """What the user wrote before a clause: `usdt:/bin/app:prov:name`, `uprobe:libc:malloc+4`, `interval:s:1`.

    `path`, `provider` and `name` may hold the wildcards of glob(7); None stands for a part that was left out
    (`usdt::prov:name`, `usdt:/bin/app:name`). `address` is the form `uprobe:/bin/app:0x1234`, a virtual address of the
    file. `text` is the attach point as written.
    """

    kind: AttachKind
    text: str
    span: Span
    path: str | None = None
    provider: str | None = None
    name: str | None = None
    offset: int = 0
    address: int | None = None
    period_ns: int = 0
