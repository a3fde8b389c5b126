"""What `tracer list -v` adds to each probe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.resolve.places.site_texts import SiteTexts

if TYPE_CHECKING:
    from tracer.resolve.listing import Listed, ListedSite
    from tracer.resolve.model import Target

_MOST_ASKED = 64
"""Processes whose memory is read for a semaphore."""


class Details:
    """The lines below a probe; probes come file by file. With -p semaphores are those of that process."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._path = ""
        self._texts = SiteTexts("")
        self._running: list[int] | None = None

    def lines(self, listed: Listed) -> Iterator[str]:
        """The parameters of a function that debug information knows; one line for each site, and below it each argument
        in words; the semaphore.
        """
        if listed.path != self._path:
            self._texts.close()
            self._path, self._texts, self._running = listed.path, SiteTexts(listed.path), None
        if listed.kind == "uprobe" and listed.sites:
            from tracer.resolve.dwarf.debug_info import prototype

            yield from prototype(listed.path, listed.sites[0].address) or ()
        for site in listed.sites:
            yield self._place(listed, site)
            for index, arg in enumerate(site.args):
                yield f"  arg{index}: {self._texts.argument(arg)}"
        guarded = {site.semaphore: site for site in listed.sites if site.semaphore is not None}
        for site in guarded.values():
            if (text := self._semaphore(site)) is not None:
                yield text

    def _place(self, listed: Listed, site: ListedSite) -> str:
        texts = self._texts
        parts = [f"address {site.address:#x}"]
        if site.offset is not None:
            parts.append(f"offset {site.offset:#x}")
        function = listed.name if listed.kind == "uprobe" else texts.function(site.address)
        parts += filter(None, (function, texts.line(site.address)))
        if site.semaphore is not None:
            parts.append(f"semaphore {site.semaphore:#x}")
        if site.args:
            parts.append("args " + " ".join(arg.text for arg in site.args))
        return "  ".join(parts)

    def _semaphore(self, site: ListedSite) -> str | None:
        """In how many processes it could be on, and in how many it is."""
        from tracer.kernel.workers.semaphores import Semaphore, values_of

        assert site.semaphore is not None
        offset = self._texts.offset(site.semaphore)
        if offset is None or site.offset is None:
            return None
        named = f"semaphore {site.semaphore:#x}"
        users = self._users()
        if not users:
            return f"{named}: no process that runs now has loaded the file"
        semaphore = Semaphore(*self._texts.file, offset, site.semaphore, site.offset, site.address)
        read = [values for pid in users[:_MOST_ASKED] if (values := values_of(pid, semaphore))]
        many = "1 process has" if len(users) == 1 else f"{len(users)} processes have"
        if not read:
            return f"{named}: {many} loaded the file; whether it is on there only root sees"
        on = sum(1 for values in read if any(values))
        of = f" of {len(read)} that were asked" if len(read) < len(users) else ""
        where = f"on in {on}" if on else "off"
        return f"{named}: {many} loaded the file; it is {where}{of}"

    def _users(self) -> list[int]:
        if self._running is None:
            from tracer.resolve.processes.uses import uses_of

            path = os.path.abspath(self._path)
            self._running = uses_of([path], self._target.pid)[path].own
        return self._running
