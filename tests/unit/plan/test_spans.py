"""A clause of a span is one at its start and one at its end; what neither can know is refused."""

from __future__ import annotations

import pytest

from tests.unit.lang.programs import IDENTITY, rendered
from tracer.errors import ProgramError, Source
from tracer.kinds.site import ArgSpec, FileSite, Reg
from tracer.lang.analyse import analyse, end_of
from tracer.lang.printing.syntax import print_ast
from tracer.lang.syntax.parser import parse
from tracer.lang.types import StringType
from tracer.plan.dump import dump_steps
from tracer.plan.lower import lower
from tracer.plan.model import Plan
from tracer.plan.points import points


def site(name: str, address: int, *sizes: int, signed: bool = False) -> FileSite:
    args = tuple(
        ArgSpec(f"{size}@%{register}", size, signed, Reg(register))
        for size, register in zip(sizes, ("di", "si"), strict=False)
    )
    return FileSite("usdt", f"usdt:/bin/app:p:{name}", name, args, 0, "/bin/app", IDENTITY, address, address)


def planned(rest: str) -> Plan:
    text = f"span:usdt:/bin/app:p:start..usdt:/bin/app:p:done{rest}"
    start, done = site("start", 0x10, 8), site("done", 0x20, 4, 8, signed=True)
    return lower(analyse(parse(Source(text)), {0: (start,), end_of(0): (done,)}))


STEPS = """\
clause 0 usdt:/bin/app:p:start
  t0 = arg0
  t1 = @ spans under way of clause 0[int64(t0)]
  t2 = nsecs
  @ open spans of clause 0[int64(t0), t1] = (t2, t0)
  @ spans under way of clause 0[int64(t0)] = uint64((t1 + 1))
clause 1 usdt:/bin/app:p:done
  slot0: (uint64, uint64)
  t1 = arg0
  t7 = arg1
  t2 = @ spans under way of clause 0[t1]
  if (t2 == 0)
    add 1 to @ unseen spans of clause 0
    leave
  if (uint64((t2 - 1)) == 0)
    delete @ spans under way of clause 0[t1]
  else
    @ spans under way of clause 0[t1] = uint64((t2 - 1))
  t3 = has @ open spans of clause 0[t1, uint64((t2 - 1))]
  if t3
    t4 = @ open spans of clause 0[t1, uint64((t2 - 1))]
    slot0 = t4
  if !t3
    leave
  delete @ open spans of clause 0[t1, uint64((t2 - 1))]
  t5 = slot0
  update @[item(t5, 1), uint64((t2 - 1))] with t7
"""


def test_what_a_span_reads_at_its_start_is_found_at_its_end_by_the_key_of_both() -> None:
    plan = planned(" by arg0 { @[arg0, depth] = max(after(arg1)); }")
    assert dump_steps(plan).partition("map @")[0] == STEPS


def test_both_probes_of_a_span_are_attach_points() -> None:
    plan = planned(" { @ = max(duration); }")
    assert [(point.text, [each.offset for each in point.places]) for point in points(plan)] == [
        ("usdt:/bin/app:p:start", [0x10]), ("usdt:/bin/app:p:done", [0x20]),
    ]  # fmt: skip
    (calls,) = plan.program.calls
    assert (calls.is_span, calls.keys) == (True, ())
    assert calls.functions == ("usdt:/bin/app:p:start..usdt:/bin/app:p:done",)


def test_the_key_of_a_span_ends_where_its_predicate_begins() -> None:
    text = 'span:usdt:../a..b:start..uprobe:"/b..usdt:":f by (pid, arg0) /arg0 > 1/ { exit(); }'
    assert print_ast(parse(Source(text))) == (
        "clause 0\n"
        "  usdt path='../a..b' name='start'\n"
        "  until uprobe path='/b..usdt:' name='f' by tuple(pid, arg0)\n"
        "  when (arg0 > 1)\n"
        "  exit()\n"
    )


def test_the_probe_and_the_result_of_a_span_are_those_of_its_end() -> None:
    text = "span:usdt:/bin/app:p:start..uretprobe:/bin/app:a_long_name { @[probe, func] = max(retval); }"
    done = FileSite(
        "uretprobe", "uretprobe:/bin/app:a_long_name", "a_long_name", (), 0, "/bin/app", IDENTITY, 0x20, 0x20
    )
    plan = lower(analyse(parse(Source(text)), {0: (site("start", 0x10, 8),), end_of(0): (done,)}))
    end = plan.probes[1]
    assert [variant.told for variant in end.variants] == [{"probe": done.probe.encode(), "func": b"a_long_name"}]
    assert plan.program.maps["@"].key == (StringType(len(done.probe) + 1), StringType(12))


FAULTS = {
    "{ @ = count(); } BEGIN { after(arg0); }": "after() is not known in BEGIN",
    "{ @ = max(self_time); }": "self_time is known of calls, not of spans",
    '{ @ = max(reg("sp")); }': "reg() has no one moment in a span",
    "{ @ = max(after(arg2)); }": "arg2 does not exist: usdt:/bin/app:p:done has 2 arguments",
    "{ @ = max(arg1); }": "arg1 does not exist: usdt:/bin/app:p:start has 1 argument",
    "{ $p = arg0; @[str($p)] = count(); }": "what memory holds is read when the call begins",
    "by ustack { @ = count(); }": "this cannot be the key of a span",
}


@pytest.mark.parametrize("rest", FAULTS)
def test_what_neither_end_of_a_span_knows_is_refused(rest: str) -> None:
    with pytest.raises(ProgramError) as refused:
        planned(f" {rest}")
    assert FAULTS[rest] in rendered(refused.value.source, refused.value.diagnostics)
