"""Places in files: the sites of USDT probes, functions and lines of source text.

Addresses are virtual addresses as the ELF file states them (before any load bias); offsets are offsets into the file,
which is what the kernel's uprobes take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import cast

from tracer.dataclass import dataclass, replace
from tracer.probes.site import Site, Spot


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file it was when it was checked: compared again right before attaching. `ctime_ns`: None where unknown."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    build_id: str | None = None
    ctime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class FileSite(Site):
    """One place in one file where a probe goes.

    `kind` "uretprobe" replaces the return address of the function at `offset`; "ret" is an ordinary probe on one `ret`
    instruction of it, used where a return probe could kill the target. `function` is the symbol that holds the place,
    or "" in a stripped file; where the program does not ask for `func`, a C++ name is left as it stands in the symbol
    table. `args` of functions are the registers of the calling convention. `semaphore` is the file offset of the USDT
    semaphore. `red_zone`: a five-byte nop in a function that may keep data below the stack pointer; Linux from 6.18 on
    makes such a nop a call, which writes there (`kernel.trials.red_zone`). `nop10`: a one-byte nop with a ten-byte one
    behind it, where newer kernels probe faster (`kernel.trials.nop10`). `nests`: the function of a return probe may be
    called again before it has returned. `tail`: of a function that ends in tail calls, what stands at the place: see
    `TailPlace`. `raised`: the file offset of a semaphore that is not `semaphore`, since the kernel would raise it in
    the wrong memory: tracer does it itself.
    """

    path: str
    identity: FileIdentity
    address: int
    offset: int
    semaphore: int | None = None
    semaphore_address: int | None = None
    red_zone: bool = False
    nop10: bool = False
    nests: bool = False
    tail: int = 0
    raised: int | None = None

    in_file = True

    @property
    def spot(self) -> Spot:
        """See `Site`: device, inode, offset, and whether it is the function's return."""
        return self.identity.device, self.identity.inode, self.offset, self.is_return_probe

    @property
    def place(self) -> tuple[int, int, int]:
        """Device, inode and offset: one breakpoint of the kernel, which is that of a function and of its return."""
        return self.identity.device, self.identity.inode, self.offset

    @property
    def guard(self) -> int | None:
        """The file offset of its semaphore, whoever raises it."""
        return self.raised if self.semaphore is None else self.semaphore

    @property
    def shown(self) -> str:
        """The probe as messages name it: an address, which `probe` has in decimal, in hexadecimal."""
        before, colon, place = self.probe.rpartition(":")
        number, plus, offset = place.partition("+")
        if not number.isdecimal() or int(number) + (int(offset) if offset.isdecimal() else 0) != self.address:
            return self.probe
        return f"{before}{colon}{int(number):#x}{plus}{offset}"

    @property
    def is_return_probe(self) -> bool:
        """Whether the kernel replaces the function's return address, and the hit is at the return."""
        return self.kind == "uretprobe"

    @property
    def is_at_return(self) -> bool:
        """Whether it is an ordinary probe on an instruction that returns."""
        return self.kind == "ret"

    @property
    def of_calls(self) -> FileSite:
        """The place of a return probe, as one where a hit is a call."""
        return replace(self, kind="uprobe")

    def of_point(self, number: int) -> FileSite:
        """See `Site`; `replace` takes three times as long."""
        return FileSite(*(*_BEFORE_POINT(self), number, *_BEHIND_POINT(self)))


_AT = FileSite.__match_args__.index("point")
_BEFORE_POINT = attrgetter(*FileSite.__match_args__[:_AT])
_BEHIND_POINT = attrgetter(*FileSite.__match_args__[_AT + 1 :])


def in_files(sites: Sequence[Site]) -> Sequence[FileSite]:
    """Sites of one sort (as those of a clause are) as places in files; () where they are of another sort."""
    return cast("Sequence[FileSite]", sites) if sites and sites[0].in_file else ()


def places_among(sites: Iterable[Site]) -> list[FileSite]:
    """Those of sites of any sort that are places in files."""
    return [site for site in sites if isinstance(site, FileSite)]


def paths_of(sites: Iterable[FileSite]) -> set[str]:
    """The paths of the files that some sites lie in."""
    return {site.path for site in sites}


def files_of(sites: Iterable[FileSite]) -> dict[tuple[int, int], str]:
    """The files that some sites lie in: the path, by device and inode."""
    first = {id(site.identity): site for site in sites}.values()  # to hash an identity takes long
    return {(site.identity.device, site.identity.inode): site.path for site in first}
