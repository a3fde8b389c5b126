"""Sites → the same with the source file and line that each is a place of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress

from tracer.dataclass import replace
from tracer.errors import TracerError
from tracer.kinds.site import FileSite, Site, in_files
from tracer.resolve.binary import Binaries


def with_sources(sites: Mapping[int, Sequence[Site]]) -> dict[int, tuple[Site, ...]]:
    """The sites of each clause; those of which nothing tells stay as they are."""
    with closing(Binaries()) as binaries:
        return {
            index: tuple([_with_source(site, binaries) for site in in_files(clause_sites)]) or tuple(clause_sites)
            for index, clause_sites in sites.items()
        }


def _with_source(site: FileSite, binaries: Binaries) -> FileSite:
    source_line = None
    with suppress(TracerError):  # a damaged table tells nothing
        lines = binaries.open(site.path).lines
        source_line = None if lines is None else lines.place_at(site.address, site.line)
    return site if source_line is None else replace(site, source_file=source_line[0], source_line=source_line[1])
