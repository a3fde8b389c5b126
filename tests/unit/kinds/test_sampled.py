"""What attach points that sample mean, in the words of perf."""

from __future__ import annotations

from typing import cast

import pytest

from tracer.errors import Fault
from tracer.kinds.registry import KINDS
from tracer.kinds.sampled import Sampled, names
from tracer.lang.syntax.attach import read


def site(text: str) -> Sampled:
    point, end = read(text, 0)
    assert end == len(text)
    alone = KINDS[point.kind].alone
    assert alone is not None
    return cast("Sampled", alone(point))


CLOCKS = {
    "profile:hz:99": ("profile:hz:99", 10_101_010),
    "p:s:2": ("profile:s:2", 2_000_000_000),
    "profile:ms:10": ("profile:ms:10", 10_000_000),
    "profile:us:100": ("profile:us:100", 100_000),
    "profile:3ms": ("profile:us:3000", 3_000_000),
    "profile:1000000": ("profile:us:1000", 1_000_000),
    "profile:hz:1e2": ("profile:hz:100", 10_000_000),
}


@pytest.mark.parametrize("text", CLOCKS)
def test_a_profile_is_a_clock_of_each_cpu(text: str) -> None:
    found = site(text)
    assert (found.kind, found.probe, found.period) == ("profile", *CLOCKS[text])
    assert (found.type, found.config, found.counts_in_hardware) == (1, 0, False)


EVENTS = {
    "software:cpu-clock": ("software:cpu-clock", 1, 0, 1_000_000),
    "software:cpu:200000": ("software:cpu:200000", 1, 0, 200_000),
    "software:task-clock": ("software:task-clock", 1, 1, 100_000),
    "s:page-faults": ("software:page-faults", 1, 2, 100),
    "software:faults:1": ("software:faults:1", 1, 2, 1),
    "software:cs": ("software:cs", 1, 3, 1_000),
    "software:cs:": ("software:cs", 1, 3, 1_000),
    "software:context-switches:0x10": ("software:context-switches:16", 1, 3, 16),
    "software:cpu-migrations": ("software:cpu-migrations", 1, 4, 1),
    "software:minor-faults": ("software:minor-faults", 1, 5, 100),
    "software:major-faults": ("software:major-faults", 1, 6, 1),
    "software:alignment-faults": ("software:alignment-faults", 1, 7, 1),
    "software:emulation-faults": ("software:emulation-faults", 1, 8, 1),
    "software:dummy": ("software:dummy", 1, 9, 1),
    "software:bpf-output": ("software:bpf-output", 1, 10, 1),
    "hardware:cycles": ("hardware:cycles", 0, 0, 1_000_000),
    "h:cpu-cycles:1e6": ("hardware:cpu-cycles:1000000", 0, 0, 1_000_000),
    "hardware:instructions": ("hardware:instructions", 0, 1, 1_000_000),
    "hardware:cache-references": ("hardware:cache-references", 0, 2, 1_000_000),
    "hardware:cache-misses": ("hardware:cache-misses", 0, 3, 1_000_000),
    "hardware:branches": ("hardware:branches", 0, 4, 100_000),
    "hardware:branch-instructions": ("hardware:branch-instructions", 0, 4, 100_000),
    "hardware:branch-misses": ("hardware:branch-misses", 0, 5, 100_000),
    "hardware:bus-cycles": ("hardware:bus-cycles", 0, 6, 100_000),
    "hardware:frontend-stalls": ("hardware:frontend-stalls", 0, 7, 1_000_000),
    "hardware:backend-stalls": ("hardware:backend-stalls", 0, 8, 1_000_000),
    "hardware:ref-cycles": ("hardware:ref-cycles", 0, 9, 1_000_000),
}


@pytest.mark.parametrize("text", EVENTS)
def test_an_event_has_perfs_number_and_a_period(text: str) -> None:
    found = site(text)
    assert (found.probe, found.type, found.config, found.period) == EVENTS[text]
    assert found.counts_in_hardware == (found.type == 0)


def test_every_name_and_alias_is_tried_here() -> None:
    tried = {found.split(":")[1] for found, *_ in EVENTS.values()}
    assert {*names("software"), *names("hardware")} == tried


_FORM = "write profile:hz:99, profile:s:1, profile:ms:10, profile:us:500 or profile:10ms"
_SHORT = "a clock that samples more often than once in 100 us would keep the machine from all else"
FAULTS = {
    "profile": ("the profile attach point has no unit and number", _FORM),
    "profile:hz": ("the profile attach point has no unit and number", _FORM),
    "profile:hz:x": ("the profile attach point has no unit and number", _FORM),
    "profile:hz:99:1": ("the profile attach point has no unit and number", _FORM),
    "profile:ns:50000": ("'ns' is not a unit of time", _FORM),
    "profile:hz:0": ("samples come at least once in a while: 0 means never", _FORM),
    "profile:us:99": (_SHORT, "write profile:us:100"),
    "profile:99": (_SHORT, "write profile:us:100"),
    "profile:hz:200000": (_SHORT, "write profile:hz:99"),
    "profile:s:99999999999": ("the period is too long", "write profile:us:100"),
    "software:cpu:1": (_SHORT, "write software:cpu:100000"),
    "software:cs:0": ("'0' does not say how many of the events are a hit", "write software:cs:1000"),
    "software:cs:x": ("'x' does not say how many of the events are a hit", "write software:cs:1000"),
    "software:cs:1:2": ("the software attach point takes the name of an event, and a number",
                        "write software:EVENT or software:EVENT:COUNT"),
    "software:page-fault": ("'page-fault' is not the name of a software event", "did you mean page-faults?"),
    "hardware:cache-hits": ("'cache-hits' is not the name of a hardware event", "did you mean cache-misses?"),
    "hardware:x": ("'x' is not the name of a hardware event", "known are " + ", ".join(names("hardware"))),
    "software:": ("the software event has no name", "known are " + ", ".join(names("software"))),
}  # fmt: skip


@pytest.mark.parametrize("text", FAULTS)
def test_what_never_comes_or_means_nothing_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(Fault) as caught:
        read(text, 0)
    assert (caught.value.diagnostic.message, caught.value.diagnostic.hint) == FAULTS[text]
