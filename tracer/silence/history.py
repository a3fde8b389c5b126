"""What traced processes had mapped, told after their end, from the kernel's records (`kernel.mapping_records`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from tracer.errors import TracerError
from tracer.host.maps import Mapping, mappings
from tracer.host.stat import directory
from tracer.kernel.mapping_records import Executed, Mapped, MappingRecords, Missed
from tracer.kinds.site import FileSite

_RING = 1 << 15
_MOST = 4096


class History:
    """Some processes, each since its last exec. It is `complete` where no record was lost."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.complete = True
        self._images = {pid: _Image(pid) for pid in pids}
        self._records: MappingRecords | None = None
        try:
            self._records = MappingRecords(pids, size=_RING)
            for image in self._images.values():
                image.begin()
        except (OSError, TracerError):
            self.complete = False

    def read(self) -> None:
        """Takes what is new."""
        if self._records is None or not self._records.has_any:
            return
        for record in self._records.take():
            if isinstance(record, Missed):
                self.complete = False
            elif (image := self._images.get(record.pid)) is None:
                continue
            elif isinstance(record, Executed):
                image.execed()
            elif isinstance(record, Mapped):
                image.add(record.mapping)

    def close(self) -> None:
        """Ends the recording."""
        if self._records is not None:
            self._records.close()

    @property
    def goes_on(self) -> bool:
        """Whether one of the processes has not ended."""
        return any(os.path.exists(f"{directory(pid)}/exe") for pid in self._images)

    @property
    def made_code(self) -> bool:
        """Whether memory of its own became executable in one of them."""
        return any(each.made_code for each in self._images.values())

    @property
    def program(self) -> str:
        """The path of the program, of several processes that of the first; "" where that is not known."""
        return next((each.files[0].path for each in self._images.values() if each.files), "")

    @property
    def paths(self) -> list[str]:
        """The files whose code was mapped, the program first."""
        return [*dict.fromkeys(each.path for image in self._images.values() for each in image.files)]

    def loaded(self, paths: Iterable[str]) -> bool:
        """Whether one of these files was mapped, or may have been: they are told by their inodes."""
        return not self.complete or not all(each.inodes for each in self._images.values()) or self.saw(paths)

    def saw(self, paths: Iterable[str]) -> bool:
        """Whether one of these files is known to have been mapped, as a program after an exec perhaps."""
        wanted = {*map(_inode, paths)}
        return any(not each.inodes.isdisjoint(wanted) for each in self._images.values())

    @property
    def changed(self) -> bool:
        """Whether anything was mapped over a program, or its code made something else."""
        return any(each.over for each in self._images.values())

    def moved(self, sites: Iterable[FileSite]) -> bool:
        """Whether one of these sites was in a program, and other memory came to stand there."""
        return any(each.file is None for each in self._at(sites))

    def rewrote(self, sites: Iterable[FileSite]) -> bool:
        """Whether one of these sites was in code of a program that it made writable."""
        return any(each.file is not None and "w" in each.permissions for each in self._at(sites))

    def _at(self, sites: Iterable[FileSite]) -> list[Mapping]:
        return [found for site in sites for each in self._images.values() for found in each.over_site(site)]


class _Image:
    """The mappings of a process since its last exec: `files`, and what came to lie `over` its program. `made_code`:
    memory of its own became executable.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.execed()

    def begin(self) -> None:
        """Takes what is mapped now. Raises `TracerError`."""
        for each in mappings(self._pid):
            if each.executable:
                self.add(each)

    def execed(self) -> None:
        """Another program begins."""
        self.made_code = False
        self.files: list[Mapping] = []
        self.over: list[Mapping] = []

    @property
    def inodes(self) -> set[int]:
        """The inodes of the files."""
        return {each.file[1] for each in self.files if each.file is not None}

    def over_site(self, site: FileSite) -> Iterator[Mapping]:
        """The mappings that came to lie over a site of the program."""
        for own in self.files:
            if own.path != self.files[0].path or own.file is None or own.file[1] != site.identity.inode:
                continue
            if own.offset <= site.offset < own.offset + own.end - own.start:
                address = own.start + site.offset - own.offset
                yield from (each for each in self.over if each.start <= address < each.end)

    def add(self, mapping: Mapping) -> None:
        """Something was mapped that can be executed."""
        if mapping.path.startswith("["):
            return
        self.made_code = self.made_code or mapping.file is None
        # A library may leave, and others may use its addresses; the program stays.
        first = self.files[0] if self.files else None
        own = [each for each in self.files if first is not None and each.file == first.file]
        if any(mapping.start < each.end and each.start < mapping.end for each in own):
            if len(self.over) < _MOST:
                self.over.append(mapping)
        elif mapping.file is not None and len(self.files) < _MOST:
            self.files.append(mapping)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
