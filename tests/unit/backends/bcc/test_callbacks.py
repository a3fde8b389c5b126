"""A program and the functions that the kernel calls back: where they stand, and what the program knows of them."""

from __future__ import annotations

import struct

from tracer.backends.bcc.host.callbacks import TAG, called_back, for_element, for_round, joined
from tracer.kernel.btf import FIRST_FUNCTION, of_functions

EXIT = struct.pack("=BBhi", 0x95, 0, 0, 0)
ZERO = struct.pack("=BBhi", 0xB7, 0, 0, 0)
SPILL = 3
"""Instructions before each function that is called back."""


def wait() -> bytes:
    return struct.pack("=BBhi", 0x85, 0, 0, 148)


def load(high: int, low: int) -> bytes:
    return struct.pack("=BBhI", 0x18, 2, 0, low) + struct.pack("=BBhI", 0, 0, 0, high)


def test_a_program_that_calls_nothing_back_is_as_it_was() -> None:
    assert joined(ZERO + EXIT, {}) == (ZERO + EXIT, ())


def test_each_constant_becomes_the_way_to_its_function() -> None:
    main = load(TAG, 3) + load(TAG, 0) + EXIT
    whole, starts = joined(main, {0: for_element(ZERO + EXIT), 1: for_element(load(TAG, 0) + EXIT)})
    first, second = 5, 5 + SPILL + 2
    assert starts == (0, first, second)
    for at, to in ((0, second), (2, first), (second + SPILL, first)):
        opcode, registers, _, away = struct.unpack_from("=BBhi", whole, 8 * at)
        assert (opcode, registers & 15, registers >> 4, at + 1 + away) == (0x18, 2, 4, to)
        assert whole[8 * at + 8 : 8 * at + 16] == bytes(8)


def test_a_constant_of_another_kind_stays() -> None:
    main = load(0xFEEDFACE, 3) + EXIT
    assert joined(main, {0: EXIT})[0][: len(main)] == main


def test_what_is_called_back_does_not_wait_for_a_page() -> None:
    whole, _ = joined(wait() + EXIT, {0: for_element(wait() + EXIT)})
    helpers = [struct.unpack_from("=i", whole, 8 * at + 4)[0] for at in (0, 2 + SPILL)]
    assert helpers == [148, 112]


def test_the_functions_of_a_program_are_those_of_its_name() -> None:
    others = {"probe_1_each_0": EXIT, "probe_1_round_1": ZERO, "probe_1_quick_2": wait(), "probe_10_each_0": EXIT}
    known = {0: for_element(EXIT), 1: for_round(ZERO), 2: for_round(struct.pack("=BBhi", 0x85, 0, 0, 112))}
    assert called_back("probe_1", {"probe_1": b"", **others}) == known
    assert called_back("probe_2", others) == {}


def test_a_round_of_a_loop_waits_for_a_page() -> None:
    assert for_round(wait() + EXIT).endswith(wait() + EXIT)


def test_the_types_of_functions_are_as_many_and_static() -> None:
    data = of_functions(2)
    header, types, size, texts = (struct.unpack_from("=I", data, at)[0] for at in (4, 8, 12, 16))
    assert len(data) == header + texts + struct.unpack_from("=I", data, 20)[0]
    functions = data[header + types : header + types + size][-24:]
    assert FIRST_FUNCTION == 3
    for name, info, signature in struct.iter_unpack("=III", functions):
        assert data[header + texts + name :].startswith(b"f\0")
        assert (info >> 24, info & 0xFFFF, signature) == (12, 0, 2)  # 0: BTF_FUNC_STATIC
