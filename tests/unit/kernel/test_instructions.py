from __future__ import annotations

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe
from tracer.dataclass import replace
from tracer.kernel.trials.instructions import kind_of, may_go_without, parts
from tracer.kinds.site import FileIdentity, FileSite

LOCK = bytes.fromhex("f048ff0500000000")
PUSH = bytes.fromhex("554889e5c3909090")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f048ff05aabbccdd", "f00fbaaf08030000"),  # lock
        ("c5f96ec64889f848", "c5f96eff89f8c4e2"),  # vmovd
        ("c44101efff89f809", "c44101efc089f809"),  # vpxor
        ("2e90c3", "662e0f1f440000"),  # segment
        ("48cf", "cf"),  # iret
    ],
)
def test_instructions_that_the_kernel_judges_alike_are_one_kind(one: str, other: str) -> None:
    assert kind_of(bytes.fromhex(one)) == kind_of(bytes.fromhex(other)) != b""


def test_the_ten_byte_nop_that_newer_kernels_take_is_a_kind_of_its_own() -> None:
    segment = kind_of(bytes.fromhex("2e90c3"))
    assert kind_of(bytes.fromhex("662e0f1f840000000000c3")) not in (b"", segment)
    assert kind_of(bytes.fromhex("662e0f1f840000020000c3")) == segment


@pytest.mark.parametrize(
    "code", ["55", "f30f1efa554889e5", "4883ec08", "8b07c3", "48b8aabbccddeeff1122", "0f1f440000", "0fb607"]
)
def test_what_functions_usually_begin_with_is_not_doubtful(code: str) -> None:
    assert kind_of(bytes.fromhex(code)) == b""


@pytest.mark.parametrize("size", range(6))
def test_code_that_ends_early_is_no_trouble(size: int) -> None:
    for first in (0xF0, 0xC5, 0xC4, 0x62, 0x0F, 0x55):
        kind_of(bytes([first] * size))


def test_parts_are_by_kind_and_then_smaller_until_each_place_is_alone() -> None:
    assert parts(["a", "b", "c"], [PUSH, LOCK, PUSH]) == [["a", "c"], ["b"]]
    assert parts(["b", "d"], [LOCK, LOCK]) == [["b"], ["d"]]
    places = list(range(10_000))
    rounds, untried = 0, [places]
    while any(len(part) > 1 for part in untried):
        rounds += 1
        untried = [new for part in untried for new in (parts(part, [PUSH] * len(part)) if len(part) > 1 else [part])]
    assert [place for part in untried for place in part] == places
    assert rounds == 3


def test_of_each_attach_point_it_counts_what_that_one_means() -> None:
    """A named one is not dropped because another means much; of a probe with several sites none is."""

    def site(offset: int, probe: str, point: int) -> FileSite:
        return FileSite("uprobe", probe, "f", (), point, "/a", FileIdentity(1, 2, 3, 4), offset, offset)

    named, twice = [site(1, "uprobe:a:f", 0)], [site(2, "usdt:a:x:y", 1), site(3, "usdt:a:x:y", 1)]
    pattern = [site(4, "uprobe:a:g1", 2), site(5, "uprobe:a:g2", 2)]
    clause = replace(plan_of(probe("{ @ = count(); }")).probes[0].clause, sites=(*named, *twice, *pattern))
    assert [may_go_without(clause, each.spot) for each in clause.sites] == [False, False, False, True, True]
