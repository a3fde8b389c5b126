"""A `usdt:` attach point and a file → sites."""

from __future__ import annotations

from functools import partial

from tracer.errors import NothingThere, TracerError, printable
from tracer.kinds.model import AttachPoint
from tracer.kinds.site import FileSite
from tracer.resolve.binary import Binary
from tracer.resolve.files.paths import did_you_mean, is_pattern, matcher
from tracer.resolve.functions.lookup import function_text
from tracer.resolve.safety.placement import usdt_site
from tracer.resolve.sites.leaving_out import leave_out, tried
from tracer.resolve.usdt.notes import UsdtNote, misplaced, semaphore_offset

_LIST = "`tracer list 'usdt:{}:*'` shows those of the file"


def usdt_sites(point: AttachPoint, binary: Binary, left_out: list[str]) -> list[FileSite]:
    """Every site of every probe that the attach point means. Those that cannot be probed are left out where there are
    others; `left_out` gets a line about them, and about hits that are those of another probe too.

    Raises `NothingThere` where the file has none, `TracerError` for one that must not be attached to.
    """
    if point.name is None:
        raise TracerError("the attach point names no USDT probe", "write usdt:PATH:PROVIDER:NAME; * stands for any")
    provider = matcher("*" if point.provider is None else point.provider)
    name = matcher(point.name)
    # A name that is there means itself, whatever signs it has; * alone is any.
    notes = []
    if "*" not in (point.name, point.provider):
        notes = [note for note in binary.usdt if note.name == point.name and point.provider in (None, note.provider)]
    notes = notes or [note for note in binary.usdt if provider(note.provider) and name(note.name)]
    if not notes:
        raise _not_found(point, point.name, binary)
    kept = [note for note in notes if not binary.was_dropped(note)]
    if not kept:
        path, which = printable(binary.shown), f"{notes[0].provider}:{notes[0].name}"
        raise NothingThere(f"{path}: the linker dropped the code of the USDT probe {which} and kept its note")
    sites, refused = tried(partial(_site, binary), kept)
    if len(kept) < len(notes):
        gone = f"{len(notes) - len(kept)} of {len(notes)} sites left out"
        left_out.append(f"{gone}: the linker dropped their code and kept their notes")
    leave_out(refused, len(kept), left_out, "be probed", "sites")
    if binary.damaged_notes:
        number = len(binary.damaged_notes)
        left_out.append(f"{number} of the file's USDT notes left out; the first: {binary.damaged_notes[0]}")
    left_out += _folded(binary, {site.address for site in sites})
    return sites


def _folded(binary: Binary, addresses: set[int]) -> list[str]:
    """The warnings where a linker has made the sites of several probes one (--icf): a hit is one of each."""
    here: dict[int, dict[tuple[str, str], None]] = {}
    for note in binary.usdt:
        if note.address in addresses:
            here.setdefault(note.address, {})[note.provider, note.name] = None
    several = dict.fromkeys(tuple(names) for names in here.values() if len(names) > 1)
    return [f"hits of {_listed(names)} cannot be told apart: the linker made them one place" for names in several]


def _listed(names: tuple[tuple[str, str], ...]) -> str:
    one = len({provider for provider, _ in names}) == 1
    *others, last = [name if one else f"{provider}:{name}" for provider, name in names]
    return f"{', '.join(others)} and {last}"


def _site(binary: Binary, note: UsdtNote) -> FileSite:
    offset, red_zone, nop10 = usdt_site(binary.code, note)
    semaphore = semaphore_offset(binary.elf, note)
    by_hand = semaphore is not None and misplaced(binary.elf, note)
    return FileSite(
        kind="usdt",
        path=binary.path,
        identity=binary.identity,
        address=note.address,
        offset=offset,
        probe=f"usdt:{binary.shown}:{note.provider}:{note.name}",
        function=function_text(binary, note.address),
        args=binary.arguments(note),
        point=0,
        semaphore=None if by_hand else semaphore,
        raised=semaphore if by_hand else None,
        semaphore_address=note.semaphore or None,
        red_zone=red_zone,
        nop10=nop10,
    )


def _not_found(point: AttachPoint, name: str, binary: Binary) -> NothingThere:
    path = printable(binary.shown)
    if not binary.usdt:
        return NothingThere(f"{path}: {binary.no_usdt}")
    wanted = name if point.provider is None else f"{point.provider}:{name}"
    message = f"{path}: no USDT probe '{printable(wanted)}'"
    if is_pattern(wanted):
        return NothingThere(f"{path}: no USDT probe matches '{printable(wanted)}'", _LIST.format(path))
    every = {note.name if point.provider is None else f"{note.provider}:{note.name}" for note in binary.usdt}
    near = did_you_mean(wanted, sorted(every))
    if near is None and point.provider is not None:
        # The right name under a wrong provider is the commonest slip.
        others = sorted({f"{note.provider}:{note.name}" for note in binary.usdt if note.name == name})
        near = f"did you mean {' or '.join(map(printable, others[:3]))}?" if others else None
    return NothingThere(message, near or _LIST.format(path))
