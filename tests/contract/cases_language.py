"""Expressions that hold statements, records, and what is rewritten before types are looked at."""

from __future__ import annotations

from collections import Counter

from tests.contract.case import Case, by_hand, said
from tests.contract.depot import rounds
from tests.contract.expect import NOTHING, keyed, scalar, value
from tracer.lang import config
from tracer.lang.builtins.registry import FUNCTIONS, VALUES
from tracer.lang.syntax.cursor import TYPE_WORDS

R = rounds()
SIZES = ("heavy", "light")


def first_product(number: int) -> int:
    """The first factors of a number, larger one first, as 100 * one + other."""
    return next((i * 100 + j for i in range(1, 60) for j in range(1, i + 1) if i * j == number), -1)


OWN = [
    *(each.name for each in FUNCTIONS.values() if each.ours), *(each.name for each in VALUES.values() if each.ours),
    *config.OURS, *config.MODES_OURS,
]  # fmt: skip
"""Words of this language that bpftrace does not have."""
TYPES = [word for word in sorted(TYPE_WORDS) if " " not in word]
"""Those of types, which bpftrace takes for names wherever no type can stand."""


def defined(word: str) -> str:
    return f"macro {word}(x) {{ x + 1 }} macro {word}() {{ 40 }} macro of_{word}({word}) {{ ({word}) * 2 - {word} }}"


def used(word: str) -> str:
    """4 more for each word, by each of its meanings: 40 - 4 - 2 * 16."""
    return f"${word} = {word}(3); $n += {word} - of_{word}(${word}) - 2 * {word}(15);"


CASES = [
    Case(
        "a_program_s_own_words_win",
        "".join(map(defined, OWN + TYPES))
        + "".join(f" macro kept_{word}(@{word}) {{ @{word} = {word}(6); }}" for word in OWN)
        + f" BEGIN {{ $n = 0; {' '.join(map(used, OWN + TYPES))} @begin = $n; }}"
        + f" usdt:T:depot:parcel {{ $n = 0; {' '.join(map(used, OWN + TYPES))} @[$n] = count();"
        + "".join(f" kept_{word}(@{word});" for word in OWN) + " }",
        keyed("@", {4 * len(OWN + TYPES): 40})
        + sum((scalar(f"@{each}", value) for each, value in sorted(
            [("begin", 4 * len(OWN + TYPES)), *((word, 7) for word in OWN)])), NOTHING),
        probes=2,
    ),
    Case(
        "a_program_s_own_functions_win",
        "".join(f"fn {word}(${word}: int64): int64 {{ return ${word} + 3; }} " for word in OWN + TYPES)
        + f"usdt:T:depot:parcel {{ @[{' + '.join(f'{word}(1)' for word in OWN + TYPES)}] = count(); }}",
        keyed("@", {4 * len(OWN + TYPES): 40}),
    ),
    said(
        "blocks_and_ifs_as_values",
        'BEGIN { $x = { let $a = 1; let $b = 2; $a + $b }; $y = if ($x > 2) { "some" } else { "none" };'
        ' printf("%d %s %d\\n", $x, $y, { printf("first\\n"); if (0) { 1 } else if ($x) { 7 } else { 2 } });'
        ' $i = 3; printf("%d %d %d %s\\n", $i++ ?: 5, $i, 0 ?: 9, "" ?: "text"); exit(); }',
        "first\n3 some 7\n3 4 9 text",
    ),
    Case(
        "blocks_as_values_in_a_probe",
        "usdt:T:depot:parcel { @[{ $half = arg0 / 2; $half * 10 }] = sum({ let $w = arg3; $w + 1 } ?: 3);"
        " @seen = if ((int32)arg4 < 0) { @neg = count(); 1 } else { 2 };"
        " if ({ $n = arg0; $n > 30 }) { @late = count(); } }",
        keyed("@", {n * 10: sum(r.weight + 1 for r in R if r.id // 2 == n) for n in range(21)})
        + scalar("@late", 10)
        + scalar("@neg", 16)
        + scalar("@seen", 1 if R[-1].delta < 0 else 2),
    ),
    Case(
        "records",
        'BEGIN { $r = (b=3, a=1); $r = (a=4, b={ printf("now "); 5 }); print($r); @r = (n=$r.a, s="x");'
        ' @k[(a=1, b=(c=2, d="x")), 3] = 1; for ($kv : @k) { print($kv.0.0.b.d); }'
        ' print((a=1, b=2) == (b=2, a=1)); exit(); }',
        by_hand(
            "now { .b = 5, .a = 4 }\nx\ntrue\n@k[{ .a = 1, .b = { .c = 2, .d = x } }, 3]: 1\n@r: { .n = 4, .s = x }\n",
            '{"type": "printf", "data": "now "}',
            '{"type": "value", "data": {"b": 5, "a": 4}}',
            '{"type": "value", "data": "x"}',
            '{"type": "value", "data": true}',
            '{"type": "map", "data": {"@k": {"{.a=1,.b={.c=2,.d=x}},3": 1}}}',
            '{"type": "map", "data": {"@r": {"n": 4, "s": "x"}}}',
        ),
        target=None,
    ),
    Case(
        "records_in_a_probe",
        "usdt:T:depot:parcel /arg0 == 2/ { $r = (n=arg0, w=(x=5, y=(int32)arg4)); $r = (w=(y=1, x=2), n=7);"
        " @[(a=$r.n, b=$r.w)] = count(); @v = (p=$r.w.x, q=(int64)arg0); @w = @v.q; }",
        by_hand(
            "@[{ .a = 7, .b = { .x = 2, .y = 1 } }]: 1\n@v: { .p = 2, .q = 2 }\n@w: 2\n",
            '{"type": "map", "data": {"@": {"{.a=7,.b={.x=2,.y=1}}": 1}}}',
            '{"type": "map", "data": {"@v": {"p": 2, "q": 2}}}',
            '{"type": "map", "data": {"@w": 2}}',
        ),
    ),
    said(
        "macros",
        "macro add(x) { x + 1 } macro twice(x) { add(add(x)) } macro inc($x) { $x += 1; } macro one() { $x = 1; $x }"
        ' macro kind($x) { "variable" } macro kind(x) { "expression" } macro kind() { "nothing" }'
        " macro sum2(x) { $y = x + 1; $z = x + 2; $y + $z } macro total(@m) { let $t = 0;"
        " for ($kv : @m) { $t += $kv.1; } $t }"
        " BEGIN { $a = 1; inc($a); inc($a); $y = 2; @m[1] = 5; @m[2] = 7;"
        ' printf("%d %d %d %s %s %s\\n", $a, twice($a), one, kind($a), kind(1 + 1), kind());'
        ' printf("%d %d %d\\n", sum2({ $y += 1; $y }), $y, total(@m)); clear(@m); exit(); }',
        "3 5 1 variable expression nothing\n10 4 12",
    ),
    Case(
        "macros_in_a_probe",
        'macro size(x) { if (x > 400) { "heavy" } else { "light" } }'
        " macro note(@m, k) { @m[k] = count(); @m[k] = count(); }"
        " macro even(x) { x % 2 == 0 } macro add(@s, $n) { $d = $n * 2; $n += 1; @s = sum($d); }"
        " usdt:T:depot:parcel /even(arg0)/ { note(@, size(arg3)); $n = arg0; add(@s, $n); @t = sum($n); }",
        keyed("@", {name: 2 * sum((r.weight > 400) == (name == "heavy") for r in R if r.id % 2 == 0) for name in SIZES})
        + scalar("@s", 2 * sum(range(2, 41, 2)))
        + scalar("@t", sum(range(3, 42, 2))),
    ),
    Case(
        "functions_in_a_probe",
        "fn class($weight: int64): string { if ($weight > 400) { return \"heavy\"; }"
        ' return "light"; } fn first($n: int64): int64 { for ($i : 1..60) { let $j = 1; while ($j <= $i) {'
        " if ($i * $j == $n) { return $i * 100 + $j; } $j++; } } return -1; }"
        " fn note($id: int64): void { if ($id % 2) { return; } @even = count(); }"
        " usdt:T:depot:parcel { @[class(arg3)] = count(); note(arg0); @first[first(arg0)] = count(); }",
        keyed("@", {name: sum((r.weight > 400) == (name == "heavy") for r in R) for name in SIZES})
        + scalar("@even", sum(r.id % 2 == 0 for r in R))
        + keyed("@first", dict(Counter(first_product(r.id) for r in R))),
    ),
    Case(
        "loops_in_a_predicate",
        "macro low(x) { let $s = 0; while ($s < 5) { if ($s == x % 7) { break; } $s++; } $s }"
        ' macro word(x) { let $w = "odd"; for ($i : 0..3) { if (x == $i * 2) { $w = "even"; } } $w }'
        ' usdt:T:depot:parcel /low(arg0) < 3 && word(arg0 % 6) == "even"/ { $n = arg0; @[$n] = count(); }',
        keyed("@", {r.id: 1 for r in R if r.id % 7 < 3 and r.id % 2 == 0}),
    ),
    said(
        "unroll_in_a_block",
        'BEGIN { $x = { let $s = 0; unroll (3) { $s += 2; unroll (2) { $s += 1; } } $s };'
        ' printf("%d\\n", $x); exit(); }',
        "12",
    ),
    said(
        "functions",
        "fn sum2($a: int64, $b: int8): int64 { return $a + $b; } fn word($n: int64): string { unroll(3) { $n -= 1;"
        ' if ($n == 0) { return "few"; } } if ($n < 0) { return "none"; } return "many"; }'
        " fn show($n: int64): void { if ($n > 2) { printf(\"big\\n\"); return; } printf(\"small\\n\"); }"
        " fn own($n: int64): int64 { if ($n) { let $q = 1; return $q; } else { let $q = 2; $n = $q; } let $q = 40;"
        ' return $q + $n; } BEGIN { $x = 1; show(sum2({ $x += 1; $x }, 3)); show($x); printf("%d %s %s %s %d\\n",'
        " sum2($x, (int8)300), word(2), word(9), word(-1), own(0)); exit(); }",
        "big\nsmall\n46 few many none 42",
    ),
    said(
        "types_asked_for",
        'BEGIN { $a = (uint8)5; printf("%d %d %d %d\\n",'
        ' (typeof($a))300, comptime (2 * 3 + 1), is_literal(5), is_literal($a));'
        ' if comptime (is_str($a)) { nosuch(); } else { printf("%d %d\\n", is_str("a"), is_unsigned_integer($a)); }'
        ' printf("%d %d\\n", config().max_strlen, getopt("n", 3)); exit(); }',
        "44 7 1 0\n1 1\n1024 3",
    ),
    Case(
        "no_maps_at_the_end",
        "config = { print_maps_on_exit = false } usdt:T:depot:parcel { @ = count(); } END { print((int64)@); }",
        value(40),
        probes=2,
    ),
    Case(
        "maps_declared",
        "let @a = hash(5); let @n = percpuhash(100);"
        " usdt:T:depot:parcel { @a[arg0 % 3] = arg0; @n[arg0 % 4] = count(); }",
        keyed("@a", {0: 39, 1: 40, 2: 38}) + keyed("@n", dict.fromkeys(range(4), 10)),
    ),
]
