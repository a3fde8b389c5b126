"""Many places that would take a perf event each."""

from __future__ import annotations

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe, site
from tracer.backends.precheck import MOST_ALONE, check_alone
from tracer.errors import ProgramError

MANY = [site(function=f"f{number}") for number in range(MOST_ALONE + 1)]
COUNT = probe("{ @ = count(); }")


def test_more_than_a_few_are_refused_with_their_number_and_the_option() -> None:
    plan = plan_of(COUNT, *MANY)
    check_alone(plan, MOST_ALONE)
    with pytest.raises(ProgramError) as raised:
        check_alone(plan, len(MANY))
    (found,) = raised.value.diagnostics
    assert found.message.startswith(f"{len(MANY)} places would take a perf event each, ")
    assert found.hint == "narrow the pattern, or lift the limit: --max-probes 512"
    assert plan.program.source.text[found.span.start : found.span.end] == "usdt:/bin/app:shop:order"


def test_the_option_is_another_number_than_the_default() -> None:
    with pytest.raises(ProgramError) as raised:
        check_alone(plan_of(COUNT, *MANY), 9000)
    assert raised.value.diagnostics[0].hint == "narrow the pattern, or lift the limit: --max-probes 16385"


def test_who_lifts_the_limit_on_probes_lifts_this_one() -> None:
    check_alone(plan_of(f"config = {{ max_probes = {len(MANY)} }} {COUNT}", *MANY), len(MANY))
