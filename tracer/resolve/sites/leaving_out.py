"""Places that an attach point means and that cannot be probed: one costs no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tracer.errors import TracerError
from tracer.kinds.site import FileSite
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.safety.placement import UNSAFE

_T = TypeVar("_T")


def leave_out(
    refused: Sequence[TracerError], number: int, left_out: list[str], what: str, of: str = "functions"
) -> None:
    """Says the errors that some of `number` places have: raises the error where it is of the only one, `ElfError` where
    all are refused; where some are, adds a line to `left_out`. `what` they cannot, `of` what they are.
    """
    if not refused:
        return
    if number == 1:
        raise refused[0]
    which = f"{len(refused)} of {number} {of}"
    if len(refused) == number:
        raise ElfError(f"{which} cannot {what}; the first: {refused[0].message}", refused[0].hint)
    some = next((UNSAFE for error in refused if (error.hint or "").endswith(UNSAFE)), "")
    left_out.append(f"{which} left out: they cannot {what}; the first: {refused[0].message}{some}")


def tried(
    make: Callable[[_T], FileSite], places: Sequence[_T], error: type[TracerError] = ElfError
) -> tuple[list[FileSite], list[TracerError]]:
    """The sites that `make` makes of places, and the errors of those of which it makes none."""
    sites: list[FileSite] = []
    refused: list[TracerError] = []
    for place in places:
        try:
            sites.append(make(place))
        except error as reason:
            refused.append(reason)
    return sites, refused
