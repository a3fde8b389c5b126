"""A clause of calls is one where they begin and one where they end; what neither can know is refused."""

from __future__ import annotations

import pytest

from tests.unit.lang.programs import IDENTITY, rendered
from tracer.errors import ProgramError, Source
from tracer.kinds.site import ArgSpec, FileSite, Reg, Site, in_files
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
  slot3: (uint64, uint64)
  t8 = arg0
  t9 = arg1
  t0 = tid
  t1 = arg255
  t2 = has @ open calls of clause 0[t0, (tail >> 8), t1]
  if t2
    add 1 to @ left calls of clause 0
    delete @ memory calls of clause 0[t0, (tail >> 8), t1]
  t3 = has @ time in calls of threads[t0]
  if t3
    t4 = @ time in calls of threads[t0]
    slot3 = t4
  if t3
  else
    slot3 = (0, 0)
  t6 = nsecs
  t7 = slot3
  @ open calls of clause 0[t0, (tail >> 8), t1] = (t6, item(t7, 0), item(t7, 1), t8, t9)
  if ((tail & 1) != 0)
    t10 = @ cost of the probes of calls[((tail >> 1) & 127)]
    @ time in calls of threads[t0] = (uint64((item(t7, 0) + (((t10 >> 21) & 2097151) | 1))), item(t7, 1))
  t11 = str(t9)
  @ memory calls of clause 0[t0, (tail >> 8), t1] = (t11)
clause 1 call:/bin/app:f
  slot0: (uint64, uint64, uint64, uint64, uint64)
  slot1: (string[1024])
  slot6: (uint64, uint64)
  t24 = retval
  t0 = nsecs
  t1 = tid
  t2 = arg255
  t3 = arg248
  t4 = has @ open calls of clause 0[t1, (tail >> 8), uint64((t2 - t3))]
  if t4
    t5 = @ open calls of clause 0[t1, (tail >> 8), uint64((t2 - t3))]
    slot0 = t5
  if !t4
    add 1 to @ unseen calls of clause 0
    leave
  delete @ open calls of clause 0[t1, (tail >> 8), uint64((t2 - t3))]
  t6 = has @ time in calls of threads[t1]
  if t6
    t7 = @ time in calls of threads[t1]
    slot6 = t7
  if t6
  else
    t8 = slot0
    slot6 = (item(t8, 1), item(t8, 2))
  t10 = slot6
  t11 = @ cost of the probes of calls[((tail >> 1) & 127)]
  t12 = slot0
  t14 = ((uint64((item(t10, 0) + ((t11 >> 0) & 2097151))) \
> uint64((item(t12, 1) + (((t11 >> 21) & 2097151) | 1)))) \
? uint64((uint64((item(t10, 0) + ((t11 >> 0) & 2097151))) \
- uint64((item(t12, 1) + (((t11 >> 21) & 2097151) | 1))))) : 0)
  if ((tail & 1) != 0)
    if (item(t12, 1) == 0)
      delete @ time in calls of threads[t1]
    else
      @ time in calls of threads[t1] = (uint64((item(t10, 0) + ((t11 >> 42) & 2097151))), item(t10, 1))
  t22 = has @ memory calls of clause 0[t1, (tail >> 8), uint64((t2 - t3))]
  if t22
    t23 = @ memory calls of clause 0[t1, (tail >> 8), uint64((t2 - t3))]
    slot1 = t23
  if !t22
    leave
  delete @ memory calls of clause 0[t1, (tail >> 8), uint64((t2 - t3))]
  if (((uint64((t0 - item(t12, 0))) > t14) ? uint64((uint64((t0 - item(t12, 0))) - t14)) : 0) > 1000000)
    t25 = slot1
    t27 = str(item(t12, 4)), computed
    update @[item(t12, 3), item(t25, 0), t27] with t24
"""


def test_what_is_noted_as_a_call_begins_is_found_where_it_ends() -> None:
    plan = planned("call:/bin/app:f /duration > 1ms/ { @[arg0, str(arg1), after(str(arg1))] = max(retval); }")
    assert dump_steps(plan).partition("map @")[0] == STEPS


def test_of_one_function_that_is_never_inside_itself_nothing_is_added_up() -> None:
    text = "call:/bin/app:f { @ = max(duration); @own = max(self_time); @probes = max(probe_time); }"
    plan = planned(text, call_of("f", 0x1000, "uretprobe"))
    assert "@ time in calls of threads" not in plan.program.maps
    assert dump_steps(plan).count("= @ cost of the probes of calls[") == 1
    assert plan.program.call_probes == (("4889f8", True),)


def test_the_last_clause_that_has_a_function_adds_up_what_its_probes_took() -> None:
    tree = parse(Source("call:/bin/app:f { @ = max(self_time); } call:/bin/app:* { @n = count(); }"))
    first, second = (call_of(name, at, "uretprobe") for name, at in (("f", 0x1000), ("g", 0x2000)))
    plan = lower(analyse(tree, {0: (first,), 1: (first, second)}))
    adds = {
        (clause.id, site.function): site.tail >> 8 & 1
        for clause in plan.program.clauses for site in in_files(clause.sites)
    }  # fmt: skip
    assert adds == {(0, "f"): 0, (2, "f"): 0, (1, "f"): 1, (3, "f"): 1, (1, "g"): 1, (3, "g"): 1}
    assert "@ time in calls of threads" in plan.program.maps


def test_of_two_names_of_a_function_in_a_clause_one_adds_up_what_its_probes_took() -> None:
    names = (call_of("f", 0x1000, "ret"), call_of("alias", 0x1000, "ret"))
    plan = planned("call:/bin/app:f, call:/bin/app:alias { @[func] = max(self_time); }", *names)
    adds = [
        (clause.id, site.function, site.tail >> 8 & 1)
        for clause in plan.program.clauses for site in in_files(clause.sites)
    ]  # fmt: skip
    assert adds == [(0, "f", 0), (0, "alias", 1), (1, "f", 0), (1, "alias", 1)]


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
