"""Places that an attach point means and that cannot be probed: one costs no other."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.errors import TracerError
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.safety.placement import UNSAFE


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
