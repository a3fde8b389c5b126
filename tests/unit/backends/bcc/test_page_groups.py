from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Literal

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe, site
from tracer.backends.bcc.attach.older.page_groups import PAGE, groups
from tracer.backends.bcc.codegen.generate import generate
from tracer.backends.precheck import MOST_ALONE
from tracer.errors import ProgramError
from tracer.kinds.site import FileSite


def at(offset: int, function: str, kind: Literal["uprobe", "uretprobe"] = "uprobe") -> FileSite:
    return replace(site(function=function), kind=kind, offset=offset, address=offset)


BODY = probe("{ @[func] = count(); }")


def test_each_place_leads_to_its_texts_and_few_groups_are_needed() -> None:
    chance = random.Random(4)
    offsets = chance.sample(range(0, 1 << 20, 16), 2000)
    plan = plan_of(BODY, *(at(offset, f"f{number}") for number, offset in enumerate(offsets)))
    generated = generate(plan)
    found = groups(plan, generated)
    assert found is not None
    texts = [*generated.site_texts.words.values()]
    for probe_plan in plan.probes:
        for variant in probe_plan.variants:
            (place,) = variant.places
            page = struct.unpack(f"={PAGE}I", found.pages[found.of[variant.id]])
            assert texts[page[place.offset % PAGE]].partition(b"\0")[0].decode() == place.function
    most = max(sum(offset % PAGE == distance for offset in offsets) for distance in range(0, PAGE, 16))
    assert len(found.pages) == most


def test_two_clauses_have_groups_of_their_own() -> None:
    plan = plan_of(f"{BODY} {BODY}", at(0x10, "f"), at(0x20, "g"))
    generated = generate(plan)
    found = groups(plan, generated)
    assert found is not None
    first, second = ([found.of[variant.id] for variant in each.variants] for each in plan.probes)
    assert (first, second) == ([0, 0], [1, 1])


def test_places_of_one_text_may_lie_at_one_distance() -> None:
    plan = plan_of(BODY, at(0x10, "f"), at(0x10 + PAGE, "f"), at(0x10 + 2 * PAGE, "g"))
    found = groups(plan, generate(plan))
    assert found is not None
    assert sorted(found.of.values()) == [0, 1]


def test_without_texts_there_are_no_groups() -> None:
    plan = plan_of(probe("{ @ = count(); }"), at(0x10, "f"), at(0x20, "g"))
    assert groups(plan, generate(plan)) is None


def test_return_probes_have_programs_of_their_own_and_too_many_are_refused() -> None:
    few = [at(16 * number, f"f{number}", "uretprobe") for number in range(MOST_ALONE)]
    plan = plan_of(BODY, *few)
    assert groups(plan, generate(plan)) is None
    plan = plan_of(BODY, *few, at(0x10_0000, "g"))
    with pytest.raises(ProgramError) as caught:
        groups(plan, generate(plan))
    (found,) = caught.value.diagnostics
    assert found.message.startswith(f"{MOST_ALONE + 1} places with func or probe, return probes among them, ")
    assert BODY[found.span.start : found.span.end] == "usdt:/bin/app:shop:order"


def test_events_of_the_kernel_have_programs_of_their_own() -> None:
    plan = plan_of(BODY, at(0x10, "f"), at(0x20, "g"))
    generated = generate(plan)
    (only,) = plan.probes
    events = tuple(replace(variant, sites=()) for variant in only.variants)
    assert groups(replace(plan, probes=(replace(only, variants=events),)), generated) is None
