"""What becomes of location expressions, spelled by hand: `Piece`s, or why there are none."""

from __future__ import annotations

from typing import Any

import pytest

from tracer.lang.types.outside import Piece, Tree
from tracer.resolve.variables.expressions import (
    IN_FLOATS,
    NOT_UNDERSTOOD,
    OPTIMISED_OUT,
    SYNTHETIC,
    THREAD_LOCAL,
    Around,
    Refused,
    pieces_of,
)

FRAME: Tree = ("+", ("reg", "sp"), ("const", 16))


class Unit:
    """As much of a unit as expressions without base types ask for."""

    offset_size, address_size, version, at = 4, 8, 5, 0


AROUND: Any = Around(0x1000, 62, Unit(), lambda: FRAME, lambda: FRAME)  # type: ignore[arg-type]

MEANT: dict[str, tuple[Piece, ...]] = {
    "91 78": (Piece(0, 8, True, ("+", ("reg", "sp"), ("const", 8))),),  # fbreg -8
    "50": (Piece(0, 8, False, ("reg", "ax")),),  # reg0
    "77 04 9f": (Piece(0, 8, False, ("+", ("reg", "sp"), ("const", 4))),),  # breg7 4, stack_value
    "91 08 06 23 10": (Piece(0, 8, True, ("+", ("read", 8, ("+", ("reg", "sp"), ("const", 24))), ("const", 16))),),
    "03 10 20 00 00 00 00 00 00": (Piece(0, 8, True, ("here", 0x1010)),),  # addr 0x2010
    "9c": (Piece(0, 8, True, FRAME),),  # call_frame_cfa
    "31 9f": (Piece(0, 8, False, ("const", 1)),),  # lit1, stack_value
    "55 93 04 54 93 04": (Piece(0, 4, False, ("reg", "di")), Piece(4, 4, False, ("reg", "si"))),
    "9e 08 01 00 00 00 02 00 00 00": (Piece(0, 8, False, ("const", 0x200000001)),),  # implicit_value
    "70 00 71 00 1c 9f": (Piece(0, 8, False, ("-", ("reg", "ax"), ("reg", "dx"))),),  # minus, stack_value
}

REFUSED: dict[str, tuple[str, tuple[Piece, ...]]] = {
    "a3 01 55 9f": ("passed in di and overwritten", ()),  # entry_value(reg5)
    "61": (IN_FLOATS, ()),  # reg17
    "10 08 9b": (THREAD_LOCAL, ()),  # constu 8, form_tls_address
    "a0 00 00 00 00 00": (SYNTHETIC, ()),  # implicit_pointer
    "55 93 04": (OPTIMISED_OUT, (Piece(0, 4, False, ("reg", "di")),)),  # the rest is nowhere
    "93 04 54 93 04": (OPTIMISED_OUT, (Piece(4, 4, False, ("reg", "si")),)),
    "12": (NOT_UNDERSTOOD, ()),  # dup of nothing
    "70 00" + " 12 22" * 20 + " 9f": (NOT_UNDERSTOOD, ()),  # doubled twenty times
    "ff": (NOT_UNDERSTOOD, ()),
}


@pytest.mark.parametrize("expression", MEANT)
def test_a_place_is_a_chain_of_reads(expression: str) -> None:
    assert pieces_of(bytes.fromhex(expression), AROUND, 8) == MEANT[expression]


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_no_place_has_its_reason(expression: str) -> None:
    with pytest.raises(Refused) as raised:
        pieces_of(bytes.fromhex(expression), AROUND, 8)
    assert (raised.value.reason, raised.value.pieces) == REFUSED[expression]
