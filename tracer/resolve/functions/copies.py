"""Copies of functions that compilers make: those that they inline, where a program asks for them, and what is to be
said of calls that go to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from tracer.errors import TracerError, and_more, printable
from tracer.kinds.model import AttachPoint
from tracer.kinds.registry import KINDS, is_return
from tracer.resolve.binary import Binary
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.files.paths import is_pattern, matcher
from tracer.resolve.functions.lookup import is_demangled, meant_among

if TYPE_CHECKING:
    from tracer.resolve.functions.inlined_copies import Copy

_NAMED = 3
_FEW = 16
"""Functions of a pattern up to which copies of each are looked for."""
_SMALL = 1 << 20
"""Bytes of debug information that are read at a start to learn where a function was inlined."""


def copies_meant(point: AttachPoint, binary: Binary, functions: Sequence[Function]) -> list[Copy]:
    """The inlined copies of functions that were found, and of those without code of their own that are meant."""
    from tracer.resolve.functions.inlined_copies import copies_of

    with_code = {function.name.partition("@")[0] for function in functions}
    meant = partial(meant_among, binary, point.name or "", point.cpp, not functions)
    return copies_of(binary, lambda names: with_code.intersection(names) | meant(names), point.source)


def with_entry(
    point: AttachPoint, binary: Binary, copies: Sequence[Copy], left_out: list[str], alone: bool
) -> list[Copy]:
    """The copies that have one entry, of those that begin at one place the first; `left_out` gets lines about the
    others. `alone`: the functions have no code of their own. Raises `ElfError` where nothing is left then.
    """
    without = [copy for copy in copies if copy.reason]
    if without:
        said = "; ".join(dict.fromkeys(f"{_text(copy)}: {copy.reason}" for copy in without[:_NAMED]))
        more = f"; and {len(without) - _NAMED} more" if len(without) > _NAMED else ""
        if alone and len(without) == len(copies):
            raise binary.elf.error(f"'{printable(point.name or '')}' has no code of its own to probe: {said}{more}")
        left_out.append(f"{len(without)} of {len(copies)} inlined copies left out: {said}{more}")
    firsts: dict[tuple[str, int], Copy] = {}
    shared = [copy for copy in copies if not copy.reason and firsts.setdefault((copy.name, copy.address), copy) != copy]
    if shared:
        said = ", ".join(dict.fromkeys(map(_text, shared[:_NAMED])))
        more = f" and {len(shared) - _NAMED} more" if len(shared) > _NAMED else ""
        begin = "1 inlined copy begins" if len(shared) == 1 else f"{len(shared)} inlined copies begin"
        left_out.append(f"{begin} where another of the function does, so one hit is a call of each: {said}{more}")
    return [*firsts.values()]


def refuse_returns(
    point: AttachPoint, binary: Binary, copies: Sequence[Copy], has_code: bool, left_out: list[str]
) -> None:
    """Raises `TracerError` for the returns of what was inlined; of a wildcard, adds a line to `left_out`."""
    if is_pattern(point.name or ""):
        names = [*dict.fromkeys(printable(copy.name) for copy in copies)]
        shown = and_more(names[:_NAMED], len(names))
        left_out.append(f"inlined copies do not return, and are left out: those of {shown}")
        return
    from tracer.resolve.functions.inlining import Inlined, at_places

    where = at_places(Inlined(len(copies), tuple(dict.fromkeys(copy.caller for copy in copies))))
    name = printable(point.name or "")
    without_copies = "leave inlined = true out for the returns of its own code"
    hint = without_copies if has_code else "probe the returns of a function that it was inlined into"
    message = f"{printable(binary.shown)}: {name} was inlined {where}, and an inlined copy does not return"
    raise TracerError(message, hint)


def _text(copy: Copy) -> str:
    return f"{printable(copy.name)} in {copy.where}"


def calls_of_copies(
    point: AttachPoint, binary: Binary, functions: Sequence[Function], all: Sequence[AttachPoint]
) -> list[str]:
    """The warnings that some calls do not reach a function that is named exactly: they go to a copy that no other
    attach point names, or its beginning was inlined. A part that was split off is no copy: the function calls it.
    """
    name = (point.name or "").partition("@")[0]
    if point.offset or len(functions) > _FEW:
        return []
    # As people write it, a whole name means its own function alone; one without parameters its copies as well.
    written = is_demangled(name) and not binary.symbols.named(name)
    exact = written and any(binary.readable(function.name) == name for function in functions)
    if not exact and (point.cpp or is_pattern(name)):
        return []
    named = sorted({function.name for function in functions}) if written else [name]
    here = {function.address for function in functions} if written else ()
    every = [copy for function_name in named for copy in binary.symbols.copies(function_name)]
    names = [copy.name for copy in every if copy.address not in here]
    tests = [matcher(other.name) for other in all if other.kind == point.kind and other.name] if names else []
    names = [copy for copy in names if not any(test(copy) or test(binary.readable(copy)) for test in tests)]
    copies = [copy for copy in names if ".part." not in copy]
    parts = [copy for copy in names if copy not in copies]
    said = _begun_elsewhere(point, binary, name, functions, parts)
    if not said and not every and ".part." not in name:
        said = _inlined_too(point, binary, name, functions)
    if not copies:
        return said
    shown = and_more(copies[:_NAMED], len(copies))
    wild = f'"{name}*"' if written else f"{name}*"
    return [*said, f"some callers of {name} call a copy that the compiler made of it ({shown}): {wild} means all"]


def _begun_elsewhere(
    point: AttachPoint, binary: Binary, name: str, functions: Sequence[Function], parts: Sequence[str]
) -> list[str]:
    """The warning that callers hold the beginning of a function, and call the rest, a part of it, or do not."""
    if not parts or binary.inlined:
        return []
    from tracer.resolve.functions.inlining import COUNTED, at_places, inlined_of

    inlined = None
    with suppress(TracerError):  # of damaged debug information
        inlined = next(filter(None, [inlined_of(binary.path, function.address) for function in functions]), None)
    if inlined is None:
        return []
    where, rest = at_places(inlined), " and ".join(map(printable, parts[:_NAMED]))
    what = f"the beginning of {name} was inlined {where}: calls there are no hits; those that go on call {rest}"
    return [what if is_return(point) else f"{what}; {COUNTED}"]


def _inlined_too(point: AttachPoint, binary: Binary, name: str, functions: Sequence[Function]) -> list[str]:
    """The warning that a function was inlined beside its own code, where the file's own debug information is small
    enough to be read for it.
    """
    section = binary.elf.section(".debug_info")
    if binary.inlined or len(functions) != 1 or section is None or section.size > _SMALL:
        return []
    from tracer.resolve.functions.inlining import COUNTED, at_places, inlined_of

    inlined = None
    with suppress(TracerError):  # of damaged debug information
        inlined = inlined_of(binary.path, functions[0].address)
    if inlined is None:
        return []
    what = f"{name} was also inlined {at_places(inlined)}: calls there are no hits"
    return [what if is_return(point) or "call" in KINDS[point.kind].reads else f"{what}; {COUNTED}"]
