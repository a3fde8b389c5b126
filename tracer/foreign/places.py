"""Finds where a definition's probe goes: its file tells the place, as an attach point of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tracer.errors import ProgramError, Source, Span
from tracer.foreign import model
from tracer.foreign.line import Line
from tracer.foreign.program import Place, at_offset, attach_point

if TYPE_CHECKING:
    from tracer.kinds.site import FileSite, Target


def place_of(line: Source, definition: model.Definition, notes: bool, target: Target) -> Place:
    """The place. `notes`: it is a USDT probe. Raises `ProgramError` under the line where the file has no such place."""
    return _Places(line, definition, target).place(notes)


class _Places:
    def __init__(self, line: Source, definition: model.Definition, target: Target) -> None:
        self._line, self._definition, self._target = line, definition, target

    def place(self, notes: bool) -> Place:
        definition = self._definition
        if notes or definition.semaphore is not None:
            return self._noted()
        if definition.returns:
            return self._returns()
        if definition.offset is not None:
            return Place(at_offset(definition.file, definition.offset), definition.offset)
        point = attach_point("uprobe", definition.file, definition.place)
        if not any(_is_in_file(argument.value) for argument in definition.arguments):
            return Place(point)
        sites = self._sites(point)
        if len(sites) > 1:
            self._check_no_place_in_file(definition.place, len(sites))
        return Place(point, sites[0].offset)

    def _check_no_place_in_file(self, name: str, count: int) -> None:
        if any(_is_in_file(argument.value) for argument in self._definition.arguments):
            raise self._fail(f"@+OFFSET follows from one place of the file, and {name} has {count}")

    def _returns(self) -> Place:
        definition = self._definition
        name = definition.place
        if definition.offset is not None:
            (site,) = self._sites(at_offset(definition.file, definition.offset))
            name = site.function
            sites = self._sites(attach_point("uprobe", definition.file, name)) if name else []
            if [site.offset for site in sites] != [definition.offset]:
                where = f", which is in {name}" if name else ""
                message = f"no function alone begins at {definition.place}{where}"
                raise self._fail(message, "a return is that of a function: r:FILE:FUNCTION")
        return Place(attach_point("uretprobe", definition.file, name))

    def _noted(self) -> Place:
        """A USDT probe, by its name, or by the offset of its place."""
        definition = self._definition
        names = definition.place.split(":")
        if definition.offset is not None:
            names = self._names_at(definition.offset)
        point = attach_point("usdt", definition.file, *names)
        sites = self._sites(point)
        if definition.offset is not None and len(sites) > 1:
            name = ":".join(names)
            message = f"{name} has {len(sites)} places, and only all of them can be probed"
            raise self._fail(message, f"tracer usdt 'p:{definition.file}:{name}' probes them")
        if len({site.offset for site in sites}) > 1:
            self._check_no_place_in_file(":".join(names), len(sites))
        return Place(point, sites[0].offset, min(len(site.args) for site in sites))

    def _names_at(self, offset: int) -> list[str]:
        """Provider and name of the note at an offset, whose semaphore must be that of the line."""
        definition = self._definition
        wanted = definition.semaphore
        try:
            every = self._sites(attach_point("usdt", definition.file, "*", "*"))
        except ProgramError:
            every = []
        here = [site for site in every if site.offset == offset]
        if wanted is None and not here:
            raise self._fail(f"no USDT probe is at {definition.place}", f"tracer usdt -l {definition.file} lists them")
        matching = [site for site in here if wanted is None or wanted in (site.semaphore, site.raised)]
        if not matching:
            counted = [semaphore for site in here for semaphore in (site.semaphore, site.raised)]
            first = next((semaphore for semaphore in counted if semaphore is not None), None)
            hint = "leave it out: no probe there has one" if first is None else f"that of the probe there is {first:#x}"
            message = f"{wanted:#x} is no semaphore of a USDT probe at {definition.place}"
            raise self._fail(f"{message}: the kernel would add to what lies there", hint)
        provider, name = matching[0].probe.split(":")[-2:]
        return [provider, name]

    def _sites(self, point: str) -> Sequence[FileSite]:
        from tracer.lang.syntax.parser import parse
        from tracer.resolve.sites.expand import expand

        try:
            sites = expand(parse(Source(f"{point} {{ }}")), self._target)[0]
        except ProgramError as error:
            first = error.diagnostics[0]
            raise self._fail(first.message, first.hint) from None
        return cast("Sequence[FileSite]", sites)

    def _fail(self, message: str, hint: str | None = None) -> ProgramError:
        span: Span = self._definition.file_span.to(self._definition.place_span)
        return Line(self._line.text, self._line.name).fail(message, span.start, span.end, hint)


def _is_in_file(value: model.Value) -> bool:
    return isinstance(value, model.InFile) or (isinstance(value, model.Memory) and _is_in_file(value.base))
