"""`vars.NAME`, and `args.NAME` inside a function, over `variables`: what each holds on a line, at an instruction and at
a USDT probe; and the lines themselves. What is right is computed as the program does.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.contract.case import Case, by_hand
from tests.contract.expect import Out, keyed, printf, scalar

_TEXT = (Path(__file__).parents[1] / "targets/variables.c").read_text().split("\n")
ROUNDS = 6
CALLS = [(("pear", 5), ("apple", 3))[r & 1] + (3 + r % 5, r % 3 == 2) for r in range(ROUNDS)]
"""Of each call of price(): the name, the id, n, and whether the colour is GREEN."""
STEPS = [(name, i, i * id) for name, id, n, _ in CALLS for i in range(n)]
TOTALS = [sum(i * id for i in range(n)) for _, id, n, _ in CALLS]


def line(mark: str) -> int:
    """The number of the line with that comment."""
    (number,) = [number for number, text in enumerate(_TEXT, 1) if f"/* {mark} */" in text]
    return number


def at(mark: str, body: str, name: str, out: Out, probes: int = 1, level: str = "O0") -> Case:
    """A case at a line."""
    program = f"uprobe:T:variables.c:{line(mark)} {body}"
    return Case(name, program, out, probes, target=f"variables-{level}", rounds=ROUNDS)


_GREEN = sum(green for *_, green in CALLS)
_LOOP = {line("inner") - back: len(STEPS) for back in (0, 1, 3, 4)}
_PROBED = next(number for number, text in enumerate(_TEXT, 1) if "DTRACE_PROBE2" in text)
_LAST = ROUNDS - 1
_MIXED = (
    f"{{ .a = {_LAST}, .b = 200, .p = {{ .x = {2 * _LAST}, .y = 4 }}, .word = ok, .few = [{_LAST},200,9], .c = GREEN }}"
)
_MIXED_JSON = (
    f'{{"a": {_LAST}, "b": 200, "p": {{"x": {2 * _LAST}, "y": 4}}, "word": "ok", "few": [{_LAST},200,9], "c": 5}}'
)

CASES = [
    at("add", "{ @[vars.it->name] = sum(vars.k); @i[vars.i] = count(); }", "variables_of_nested_blocks",
       keyed("@", {name: sum(k for each, _, k in STEPS if each == name) for name in ("apple", "pear")})
       + keyed("@i", dict(Counter(i for _, i, _ in STEPS)))),
    at("inner", f"{{ @k = max(vars.total); }} uprobe:T:variables.c:{line('end')} {{ @ = max(vars.total); }}",
       "a_name_means_the_innermost_variable",
       scalar("@", max(TOTALS)) + scalar("@k", 100 + max(k for *_, k in STEPS)), 2),
    at("end", "/vars.c == GREEN/ { @ = sum(args.n); @s = max(vars.calls); }", "a_predicate_on_a_variable",
       scalar("@", sum(n for *_, n, green in CALLS if green)) + scalar("@s", ROUNDS)),
    at("mixed", f"/vars.a == {_LAST}/ {{ print(vars); print(vars.few[1]); exit(); }}", "all_variables_as_a_record",
       by_hand(_MIXED + "\n200\n", f'{{"type": "value", "data": {_MIXED_JSON}}}', '{"type": "value", "data": 200}')),
    Case("variables_at_a_usdt_probe", "usdt:T:shop:priced { @ = sum(vars.total); @n = sum(args.n); @r[vars.it->rank] ="
         " count(); }", scalar("@", sum(TOTALS)) + scalar("@n", sum(n for *_, n, _ in CALLS))
         + keyed("@r", dict(Counter(17 if name == "apple" else 3 for name, *_ in CALLS))),
         target="variables-O0", rounds=ROUNDS),
    Case("a_parameter_in_the_prologue_is_where_it_was_passed",
         "uprobe:T:price+4 { @ = sum(args.n); @i = sum(vars.it->id); }",
         scalar("@", sum(n for *_, n, _ in CALLS)) + scalar("@i", sum(id for _, id, *_ in CALLS)),
         target="variables-O0", rounds=ROUNDS),
    at("sell", "{ @ = sum(vars.n); @n[vars.what->name] = count(); }", "a_copy_has_its_callers_variables_too",
       scalar("@", 2 * sum(n for *_, n, _ in CALLS))
       + keyed("@n", dict(Counter(name for name, *_ in CALLS) + Counter({"apple": ROUNDS}))), 2),
    at("sell", "{ @ = sum(vars.count); @n[vars.what->name] = count(); }", "inlined_copies_have_places_of_their_own",
       scalar("@", sum(n for *_, n, _ in CALLS) + sum(TOTALS))
       + keyed("@n", dict(Counter(name for name, *_ in CALLS) + Counter({"apple": ROUNDS}))), 2, level="O2"),
    *[Case(f"lines_of_a_range_are_told_apart_{level}", f"uprobe:T:variables.c:{min(_LOOP)}-{max(_LOOP)}"
           ' { @[line] = count(); @f[strcontains(file, "targets/variables.c"), func] = sum(line); }',
           keyed("@", _LOOP) + keyed("@f", {(True, "price"): len(STEPS) * sum(_LOOP)}), 4,
           target=f"variables-{level}", rounds=ROUNDS) for level in ("O0", "O2")],
    *[Case(f"each_line_of_a_function_{level}", f"uprobe:T@variables.c:price:* /line == {line('end') - 1} ||"
           f" (line >= {min(_LOOP)} && line <= {max(_LOOP)})/ {{ @[line] = count(); }}",
           keyed("@", {line("end") - 1: sum(green for *_, green in CALLS), **_LOOP}), places,
           target=f"variables-{level}", rounds=ROUNDS) for level, places in (("O0", 15), ("O2", 16))],
    at("add", '{ printf("%s %d\\n", probetype, line); @ = line; exit(); }', "the_line_of_a_place_in_printf",
       printf(f"uprobe {line('add')}\n") + scalar("@", line("add"))),
    Case("the_line_of_a_function_and_of_a_usdt_probe", "uprobe:T:price, usdt:T:shop:priced { @[line] = count(); }",
         keyed("@", {line("first") - 1: ROUNDS, _PROBED: ROUNDS}), 2, target="variables-O0", rounds=ROUNDS),
]  # fmt: skip
