"""A `usdt:` attach point and a file → sites."""

from __future__ import annotations

from tracer.errors import TracerError, printable
from tracer.probes.model import AttachPoint
from tracer.probes.site import NothingThere, Site
from tracer.resolve.binary import Binary
from tracer.resolve.files.paths import did_you_mean, is_pattern, matcher
from tracer.resolve.functions.lookup import function_text
from tracer.resolve.safety.placement import usdt_site
from tracer.resolve.usdt.notes import UsdtNote, semaphore_offset

_LIST = "`tracer list 'usdt:{}:*'` shows those of the file"


def usdt_sites(point: AttachPoint, binary: Binary) -> list[Site]:
    """Every site of every probe that the attach point means.

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
    return [_site(note, binary) for note in notes]


def _site(note: UsdtNote, binary: Binary) -> Site:
    offset, red_zone, nop10 = usdt_site(binary.code, note)
    return Site(
        kind="usdt",
        path=binary.path,
        identity=binary.identity,
        address=note.address,
        offset=offset,
        probe=f"usdt:{binary.shown}:{note.provider}:{note.name}",
        function=function_text(binary, note.address),
        args=binary.arguments(note),
        semaphore=semaphore_offset(binary.elf, note),
        semaphore_address=note.semaphore or None,
        red_zone=red_zone,
        nop10=nop10,
    )


def _not_found(point: AttachPoint, name: str, binary: Binary) -> NothingThere:
    path = printable(binary.shown)
    if not binary.usdt:
        return NothingThere(f"{path}: the file has no USDT probes")
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
