"""What a traced process had mapped, told after it has ended, from the kernel's records (`kernel.mapping_records`)."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tracer.errors import TracerError
from tracer.host.maps import Mapping, mappings
from tracer.host.stat import directory
from tracer.kernel.mapping_records import Executed, Mapped, MappingRecords, Missed
from tracer.probes.site import Site

_RING = 1 << 15
_MOST = 4096


class History:
    """One process, since its last exec. It is `complete` where no record was lost."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.complete = True
        self.made_code = False
        """Whether memory of its own became executable."""
        self._files: list[Mapping] = []
        self._over: list[Mapping] = []
        self._records: MappingRecords | None = None
        try:
            self._records = MappingRecords(pid, size=_RING)
            for each in mappings(pid):
                if each.executable:
                    self._add(each)
        except (OSError, TracerError):
            self.complete = False

    def read(self) -> None:
        """Takes what is new."""
        if self._records is None or not self._records.has_any:
            return
        for record in self._records.take():
            if isinstance(record, Missed):
                self.complete = False
            elif record.pid != self._pid:
                continue
            elif isinstance(record, Executed):
                self._files, self._over, self.made_code = [], [], False
            elif isinstance(record, Mapped):
                self._add(record.mapping)

    def close(self) -> None:
        """Ends the recording."""
        if self._records is not None:
            self._records.close()

    @property
    def goes_on(self) -> bool:
        """Whether the process has not ended."""
        return os.path.exists(f"{directory(self._pid)}/exe")

    @property
    def program(self) -> str:
        """The path of the program; "" where that is not known."""
        return self._files[0].path if self._files else ""

    @property
    def paths(self) -> list[str]:
        """The files whose code it mapped, itself first."""
        return [*dict.fromkeys(each.path for each in self._files)]

    def loaded(self, paths: Iterable[str]) -> bool:
        """Whether it mapped one of these files, or may have: they are told by their inodes."""
        return not self.complete or not self._inodes or self.saw(paths)

    def saw(self, paths: Iterable[str]) -> bool:
        """Whether it is known to have mapped one of these files, as its program after an exec perhaps."""
        return not self._inodes.isdisjoint(map(_inode, paths))

    @property
    def _inodes(self) -> set[int]:
        return {each.file[1] for each in self._files if each.file is not None}

    @property
    def changed(self) -> bool:
        """Whether anything was mapped over the program, or its code made something else."""
        return bool(self._over)

    def moved(self, sites: Iterable[Site]) -> bool:
        """Whether one of these sites was in the program, and other memory came to stand there."""
        return any(each.file is None for each in self._at(sites))

    def rewrote(self, sites: Iterable[Site]) -> bool:
        """Whether one of these sites was in code of the program that it made writable."""
        return any(each.file is not None and "w" in each.permissions for each in self._at(sites))

    def _at(self, sites: Iterable[Site]) -> list[Mapping]:
        found = []
        for site in sites:
            for own in self._files:
                if own.path != self.program or own.file is None or own.file[1] != site.identity.inode:
                    continue
                if own.offset <= site.offset < own.offset + own.end - own.start:
                    address = own.start + site.offset - own.offset
                    found += [each for each in self._over if each.start <= address < each.end]
        return found

    def _add(self, mapping: Mapping) -> None:
        if mapping.path.startswith("["):
            return
        self.made_code = self.made_code or mapping.file is None
        # A library may leave, and others may use its addresses; the program stays.
        first = self._files[0] if self._files else None
        own = [each for each in self._files if first is not None and each.file == first.file]
        if any(mapping.start < each.end and each.start < mapping.end for each in own):
            if len(self._over) < _MOST:
                self._over.append(mapping)
        elif mapping.file is not None and len(self._files) < _MOST:
            self._files.append(mapping)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
