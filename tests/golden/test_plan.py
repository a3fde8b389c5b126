"""The plan as `-d plan` prints it, to the letter. To accept new output: TRACER_WRITE_GOLDENS=1 pytest tests/golden."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.lang.programs import analysed
from tracer.plan.dump import dump
from tracer.plan.lower import lower

FOLDER = Path(__file__).parent / "plan"

PROGRAMS = {
    "count_by_string": "usdt:/bin/app:shop:order /arg0 > 3/ { @[str(arg1), arg2 % 2] = sum(arg3); @n++; }",
    "latency": """
        uprobe:/bin/app:f { @start[tid] = nsecs; }
        uretprobe:/bin/app:f /@start[tid]/ { @ns = hist(nsecs - @start[tid], 2); delete(@start, tid); }
        interval:ms:500 { print(@ns); clear(@ns); }
        END { clear(@start); }""",
    "names": "usdt:/bin/app:shop:order,uprobe:/bin/app:f { @[probe, func] = lhist(arg0, 0, 100, 10); }",
    "needs": "uprobe:/bin/app:f { @[uid, ustack(5)] = count(); $i = 0; while ($i < 3) { $i++; } @s = usym(arg0); }",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_plan_is_dumped_as_before(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    text = dump(lower(analysed(PROGRAMS[name])))
    if os.environ.get("TRACER_WRITE_GOLDENS"):
        path.write_text(text)
    assert text == path.read_text()
