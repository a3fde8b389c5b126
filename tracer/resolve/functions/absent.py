"""The error for an attach point that none of several files has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from tracer.errors import TracerError, printable
from tracer.kinds.model import AttachPoint
from tracer.kinds.registry import KINDS
from tracer.resolve.binary import Binary
from tracer.resolve.files.paths import Found, did_you_mean, is_pattern
from tracer.resolve.functions.lookup import names_to_suggest


def nothing(point: AttachPoint, files: Sequence[Found], binary_of: Callable[[Found], Binary]) -> TracerError:
    """The error that the attach point means nothing in these files, which `binary_of` opens."""
    if point.is_of_lines:
        return TracerError(f"no code comes from '{printable(point.source or '')}' in any of {len(files)} files")
    name = point.name or "*" if point.provider is None else f"{point.provider}:{point.name or '*'}"
    message = f"no {KINDS[point.kind].target} matches '{printable(name)}' in any of {len(files)} files"
    return TracerError(message, _near(point, files, binary_of))


def _near(point: AttachPoint, files: Sequence[Found], binary_of: Callable[[Found], Binary]) -> str | None:
    """The names of several files that look like the one that none has; a path is named as if it were a name."""
    name = point.name
    if name is None or is_pattern(name):
        return None
    for file in files:
        if name in (os.path.basename(file.shown), file.shown):
            what = "PROVIDER:NAME" if KINDS[point.kind].has_notes else "FUNCTION"
            return f"that is a file: write {point.kind}:{name}:{what}"
    names: dict[str, None] = {}
    for file in files:
        try:
            names.update(dict.fromkeys(_names(point, binary_of(file))))
        except TracerError:
            continue
    return did_you_mean(name, names)


def _names(point: AttachPoint, binary: Binary) -> Iterable[str]:
    """The names in a file among which the attach point's would be."""
    if KINDS[point.kind].has_notes:
        return [probe.name for probe in binary.usdt if point.provider in (None, "*", probe.provider)]
    return names_to_suggest(binary, point.name or "")
