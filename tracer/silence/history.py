"""The files that traced processes had mapped, told after their end from the kernel's records
(`kernel.mapping_records`).
"""

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
    """The mappings of some processes, each since its last exec. It is `complete` where no record was lost."""

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
        return any(image.made_code for image in self._images.values())

    @property
    def program(self) -> str:
        """The path of the program, of several processes that of the first; "" where that is not known."""
        return next((image.files[0].path for image in self._images.values() if image.files), "")

    @property
    def paths(self) -> list[str]:
        """The files whose code was mapped, the program first."""
        return [*dict.fromkeys(file.path for image in self._images.values() for file in image.files)]

    def loaded(self, paths: Iterable[str]) -> bool:
        """Whether one of these files was mapped, or may have been: they are told by their inodes."""
        return not self.complete or not all(image.inodes for image in self._images.values()) or self.saw(paths)

    def saw(self, paths: Iterable[str]) -> bool:
        """Whether one of these files is known to have been mapped, as a program after an exec perhaps."""
        wanted = {*map(_inode, paths)}
        return any(not image.inodes.isdisjoint(wanted) for image in self._images.values())

    @property
    def changed(self) -> bool:
        """Whether anything was mapped over a program, or its code made something else."""
        return any(image.over for image in self._images.values())

    def moved(self, sites: Iterable[FileSite]) -> bool:
        """Whether one of these sites was in a program, and other memory came to stand there."""
        return any(mapping.file is None for mapping in self._over_sites(sites))

    def rewrote(self, sites: Iterable[FileSite]) -> bool:
        """Whether one of these sites was in code of a program that it made writable."""
        return any(mapping.file is not None and "w" in mapping.permissions for mapping in self._over_sites(sites))

    def _over_sites(self, sites: Iterable[FileSite]) -> list[Mapping]:
        return [mapping for site in sites for image in self._images.values() for mapping in image.over_site(site)]


class _Image:
    """The mappings of a process since its last exec: `files`, and what came to lie `over` its program. `made_code`:
    memory of its own became executable.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.execed()

    def begin(self) -> None:
        """Takes what is mapped now. Raises `TracerError`."""
        for mapping in mappings(self._pid):
            if mapping.executable:
                self.add(mapping)

    def execed(self) -> None:
        """Another program begins."""
        self.made_code = False
        self.files: list[Mapping] = []
        self.over: list[Mapping] = []

    @property
    def inodes(self) -> set[int]:
        """The inodes of the files."""
        return {file.file[1] for file in self.files if file.file is not None}

    def over_site(self, site: FileSite) -> Iterator[Mapping]:
        """The mappings that came to lie over a site of the program."""
        for file in self.files:
            if file.path != self.files[0].path or file.file is None or file.file[1] != site.identity.inode:
                continue
            if file.offset <= site.offset < file.offset + file.end - file.start:
                address = file.start + site.offset - file.offset
                yield from (mapping for mapping in self.over if mapping.start <= address < mapping.end)

    def add(self, mapping: Mapping) -> None:
        """Something was mapped that can be executed."""
        if mapping.path.startswith("["):
            return
        self.made_code = self.made_code or mapping.file is None
        # A library may leave, and others may use its addresses; the program stays.
        first = self.files[0] if self.files else None
        code = [file for file in self.files if first is not None and file.file == first.file]
        if any(mapping.start < file.end and file.start < mapping.end for file in code):
            if len(self.over) < _MOST:
                self.over.append(mapping)
        elif mapping.file is not None and len(self.files) < _MOST:
            self.files.append(mapping)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
