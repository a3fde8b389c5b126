"""A clause of calls is one where they begin and one where they end; what neither can know is refused."""

from __future__ import annotations

import pytest

from tests.unit.lang.programs import IDENTITY, rendered
from tracer.errors import ProgramError, Source
from tracer.kinds.site import ArgSpec, FileSite, Reg, Site
from tracer.lang.analyse import analyse
from tracer.lang.syntax.parser import parse
from tracer.plan.dump import dump_steps
from tracer.plan.lower import lower
from tracer.plan.model import Plan
from tracer.plan.points import count, first_numbers, points

ARGS = tuple(ArgSpec(f"8@%{name}", 8, False, Reg(name)) for name in ("di", "si", "dx"))


def call_of(name: str, address: int, *ends: str) -> FileSite:
    first = 0 if ends == ("uretprobe",) else 1
    places = tuple([(kind, address + 16 * at, address + 16 * at) for at, kind in enumerate(ends, first)])
    return FileSite("call", f"call:/bin/app:{name}", name, ARGS, 0, "/bin/app", IDENTITY, address, address, ends=places)


def planned(text: str, *sites: Site) -> Plan:
    tree = parse(Source(text))
    return lower(analyse(tree, {0: sites or (call_of("f", 0x1000, "ret", "ret"),)}))


STEPS = """\
clause 0 call:/bin/app:f
  t5 = arg0
  t6 = arg1
  t0 = tid
  t1 = arg253
  t2 = arg255
  t3 = has @ open calls of clause 0[t0, t1, t2]
  if t3
    add 1 to @ left calls of clause 0
    delete @ memory calls of clause 0[t0, t1, t2]
  t4 = nsecs
  @ open calls of clause 0[t0, t1, t2] = (t4, t5, t6)
  t7 = str(t6)
  @ memory calls of clause 0[t0, t1, t2] = (t7)
clause 1 call:/bin/app:f
  slot0: (uint64, uint64, uint64)
  slot1: (string[1024])
  t10 = retval
  t0 = nsecs
  t1 = tid
  t2 = arg253
  t3 = arg255
  t4 = arg248
  t5 = has @ open calls of clause 0[t1, t2, uint64((t3 - t4))]
  if t5
    t6 = @ open calls of clause 0[t1, t2, uint64((t3 - t4))]
    slot0 = t6
  if !t5
    add 1 to @ unseen calls of clause 0
    leave
  delete @ open calls of clause 0[t1, t2, uint64((t3 - t4))]
  t7 = has @ memory calls of clause 0[t1, t2, uint64((t3 - t4))]
  if t7
    t8 = @ memory calls of clause 0[t1, t2, uint64((t3 - t4))]
    slot1 = t8
  if !t7
    leave
  delete @ memory calls of clause 0[t1, t2, uint64((t3 - t4))]
  t9 = slot0
  if (uint64((t0 - item(t9, 0))) > 1000000)
    t11 = slot1
    t13 = str(item(t9, 2)), computed
    update @[item(t9, 1), item(t11, 0), t13] with t10
"""


def test_what_is_noted_as_a_call_begins_is_found_where_it_ends() -> None:
    plan = planned("call:/bin/app:f /duration > 1ms/ { @[arg0, str(arg1), after(str(arg1))] = max(retval); }")
    assert dump_steps(plan).partition("map @")[0] == STEPS


def test_both_clauses_are_of_one_attach_point() -> None:
    both = call_of("f", 0x1000, "ret", "ret"), call_of("g", 0x2000, "uretprobe")
    plan = planned("call:/bin/app:f { @ = count(); }", *both)
    assert (count(plan), first_numbers(plan)) == (1, {0: 0, 1: 0})
    (point,) = points(plan)
    assert [(site.kind, site.offset) for site in point.places] == [
        ("uprobe", 0x1000), ("uprobe", 0x2000), ("ret", 0x1010), ("ret", 0x1020), ("uretprobe", 0x2000),
    ]  # fmt: skip
    assert plan.program.calls[0].functions == ("f", "g")


KNOWN_AT_THE_END = (
    "error: what memory holds is read when the call begins, and this address is known only when it ends\n"
    "  call:/bin/app:f { CODE }\n"
    "  UNDER\n"
    "  hint: name the argument itself, as in str(arg0), or read it when the call ends: after(…)\n"
)


@pytest.mark.parametrize("code", ["$p = arg0; print(STR($p));", "print(STR(@a[1])); @a[1] = arg0;"])
def test_an_address_that_is_known_only_at_the_end_is_refused(code: str) -> None:
    text = f"call:/bin/app:f {{ {code.replace('STR', 'str')} }}"
    with pytest.raises(ProgramError) as refused:
        planned(text)
    start = text.index("str(")
    under = " " * start + "^" * (text.index("))", start) + 1 - start)
    wanted = KNOWN_AT_THE_END.replace("call:/bin/app:f { CODE }", text).replace("UNDER", under)
    assert rendered(refused.value.source, refused.value.diagnostics) == wanted
    planned(text.replace("str(", "after(str(").replace("))", ")))", 1))
