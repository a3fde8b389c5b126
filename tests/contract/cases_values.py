"""Statements and expressions: control flow, operators and their precedence, signs, widths, casts, strings, tuples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase

from tests.contract.case import Case, said
from tests.contract.depot import COLD, LABELS, rounds
from tests.contract.expect import NOTHING, Out, keyed, printf, scalar, together, value

R = rounds()

LABEL_LENGTHS = [min(len((label or "").encode()), 1023) for label in LABELS]


def trunc(a: int, b: int) -> int:
    """Division that truncates towards zero, as C's."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _found(item: str) -> tuple[int, int]:
    """Where an item's name has its first e, and what begins with its third letter."""
    text = item.encode()
    return text.find(b"e"), text.find(text[2:])


GLOBS = ("*", "c*", "*[e-g]*", "?l*", "*e", "[!a-h]*", "*o*e*", "glue")
GLOBBED = ", ".join(f'globmatch(str(arg1), "{each}")' for each in GLOBS)


def _globbed(item: str) -> tuple[bool, ...]:
    return tuple(fnmatchcase(item.encode().decode("latin-1"), each) for each in GLOBS)


def _globbed_labels(read: Iterable[int]) -> Out:
    """What strings_as_patterns_say answers where these labels are read."""
    found = {at: 1 for at in read if LABELS[at] and fnmatchcase(LABELS[at] or "", "*[b-d]?e*")}
    return keyed("@", Counter(_globbed(r.item) for r in R)) + keyed("@label", found)


CASES = [
    Case(
        "if_else_chain",
        "usdt:T:depot:parcel { if ((int32)arg4 < 0) { @neg = count(); } else if (arg4 == 0) { @zero = count(); }"
        " else { @pos = count(); } }",
        scalar("@neg", 16) + scalar("@pos", 20) + scalar("@zero", 4),
    ),
    Case(
        "ternary",
        'usdt:T:depot:parcel { @[arg3 > 400 ? "heavy" : arg3 > 100 ? "middle" : "light"] = count(); }',
        keyed(
            "@",
            {
                name: sum(("heavy" if r.weight > 400 else "middle" if r.weight > 100 else "light") == name for r in R)
                for name in ("heavy", "middle", "light")
            },
        ),
    ),
    Case(
        "while_in_a_probe",
        "usdt:T:depot:parcel { $n = arg3; $digits = 0; while ($n > 0) { $digits += $n % 10; $n /= 10; }"
        " @[$digits] = count(); }",
        keyed(
            "@",
            {
                total: sum(sum(map(int, str(r.weight))) == total for r in R)
                for total in {sum(map(int, str(r.weight))) for r in R}
            },
        ),
    ),
    said("while_in_begin", 'BEGIN { $i = 3; while ($i) { printf("%d\\n", $i); $i--; } exit(); }', "3\n2\n1"),
    said(
        "break_and_continue",
        "BEGIN { $i = 0; while ($i < 10) { $i++; if ($i == 2) { continue; } if ($i == 5) { break; }"
        ' printf("%d\\n", $i); } exit(); }',
        "1\n3\n4",
    ),
    Case(
        "a_loop_ends_at_the_limit",
        'BEGIN { $i = 0; while ($i < 4200000) { $i++; } printf("%d\\n", $i); exit(); }',
        printf("4194304\n"),
        target=None,
        loops=1,
    ),
    Case(
        "a_loop_in_a_probe_ends_at_the_limit",
        "usdt:T:depot:parcel /arg0 == 1/ { $i = 0; while ($i < 200000) { $i++; } @ = $i; }",
        scalar("@", 131072),
        loops=1,
    ),
    said(
        "characters_of_a_string",
        'BEGIN { $s = "hello"; $i = 1; $far = 5;'
        ' printf("%s\\n", ($s[0], $s[$i], $s[5], $s[$far], "abc"[2])); exit(); }',
        "(104, 101, 0, 0, 99)",
    ),
    said(
        "strings_written_in_the_program",
        'BEGIN { printf("%s\\n", ("a" < "b", "b" <= "ab", "ab" > "a", "a" >= "a", "x" + "yz",'
        ' sizeof("x" + "yz"))); exit(); }',
        "(true, false, true, true, xyz, 4)",
    ),
    said(
        "casts_of_strings",
        'BEGIN { $s = "hi"; printf("%s\\n", ((bool)$s, (bool)"", sizeof((string[8])$s), (string[8])$s)); exit(); }',
        "(true, false, 8, hi)",
    ),
    Case(
        "characters_of_a_string_read_at_a_hit",
        "usdt:T:depot:label /arg0 == 1/ { $s = str(arg1); $i = arg0; @[$s[0], $s[$i], $s[1000]] = count();"
        " @filled[(bool)$s] = count(); }",
        keyed("@", {(*b"a ", 0): 1}) + keyed("@filled", {"true": 1}),
        cold=NOTHING,
    ),
    Case(
        "unroll",
        "usdt:T:depot:parcel { $i = 0; unroll(3) { @[$i] = sum(arg0); $i += 1; } }",
        keyed("@", {0: 820, 1: 820, 2: 820}),
    ),
    said("for_over_a_range", 'BEGIN { for ($i : 0..4) { printf("%d\\n", $i); } exit(); }', "0\n1\n2\n3"),
    Case(
        "for_over_a_range_in_a_probe",
        "usdt:T:depot:parcel /arg0 <= 3/ { for ($i : 0..arg0) { @[$i] = count(); } }",
        keyed("@", {0: 3, 1: 2, 2: 1}),
    ),
    Case(
        "return_ends_the_clause",
        "usdt:T:depot:parcel { @all = count(); if (arg0 % 2) { return; } @even = count(); }",
        scalar("@all", 40) + scalar("@even", 20),
    ),
    Case(
        "short_circuit",
        "usdt:T:depot:parcel { if (arg0 > 37 && @and++ >= 0) { @a = count(); } if (arg0 <= 37 || @or++ >= 0) {"
        " @b = count(); } }",
        scalar("@a", 3) + scalar("@and", 3) + scalar("@b", 40) + scalar("@or", 3),
    ),
    said(
        "scratch_assignment_operators",
        'BEGIN { $x = 10; $x += 5; printf("%d\\n", $x); $x -= 18; printf("%d\\n", $x); $x *= -7; printf("%d\\n", $x);'
        ' $x /= 4; printf("%d\\n", $x); $x %= 3; printf("%d\\n", $x); $x <<= 5; printf("%d\\n", $x); $x |= 9;'
        ' printf("%d\\n", $x); $x &= 12; printf("%d\\n", $x); $x ^= 5; printf("%d\\n", $x); $x >>= 1;'
        ' printf("%d\\n", $x);'
        " exit(); }",
        "15\n-3\n21\n5\n2\n64\n73\n8\n13\n6",
    ),
    said(
        "scratch_counters",
        'BEGIN { $i = 5; $a = $i++; $b = ++$i; $c = $i--; $d = --$i; printf("%d %d %d %d %d\\n", $a, $b, $c, $d,'
        " $i); exit(); }",
        "5 7 7 5 5",
    ),
    said(
        "arithmetic",
        'BEGIN { printf("%d %d %d %d %d\\n", 10 / 3, 10 % 3, -10 / 3, -10 % 3, 7 * -6);'
        ' printf("%d %d %d %d %d\\n", 6 & 3, 6 | 3, 6 ^ 3, ~6, !6); printf("%d %d %d\\n", 1 << 4, 255 >> 2, -16'
        " >> 2);"
        " exit(); }",
        "3 1 -3 -1 -42\n2 7 5 -7 0\n16 63 -4",
    ),
    said(
        "precedence",
        'BEGIN { printf("%d %d %d %d\\n", 2 + 3 * 4, (2 + 3) * 4, 20 - 6 - 4, 2 * 7 % 5);'
        ' printf("%d %d %d %d\\n", 1 + 2 << 3, 1 << 2 + 1, 6 & 3 == 3, 1 | 6 ^ 3 & 2);'
        ' printf("%d %d %d\\n", 1 || 0 && 0, 5 > 3 == 1, -3 + 5); printf("%d %d\\n", !0 + 1, ~1 + 2);'
        ' printf("%d\\n", 1 ? 2 : 0 ? 3 : 4); exit(); }',
        "14 20 10 4\n24 8 0 5\n1 1 2\n2 0\n2",
    ),
    Case(
        "precedence_with_arguments",
        "usdt:T:depot:parcel { @a += arg0 + arg2 * 3 - 1; @b += (arg0 + arg2) * 3; @c += arg0 << 1 + 1; @d +="
        " arg0 & 7 ^ 2 | 16; }",
        scalar("@a", sum(r.id + r.zone * 3 - 1 for r in R))
        + scalar("@b", sum((r.id + r.zone) * 3 for r in R))
        + scalar("@c", sum(r.id << 2 for r in R))
        + scalar("@d", sum(r.id & 7 ^ 2 | 16 for r in R)),
    ),
    Case(
        "comparisons",
        "usdt:T:depot:parcel { @lt += arg0 < 10; @le += arg0 <= 10; @gt += arg0 > 10; @ge += arg0 >= 10; @eq +="
        " arg0 == 10; @ne += arg0 != 10; }",
        scalar("@eq", 1)
        + scalar("@ge", 31)
        + scalar("@gt", 30)
        + scalar("@le", 10)
        + scalar("@lt", 9)
        + scalar("@ne", 39),
    ),
    Case(
        "signed_and_unsigned_comparison",
        "usdt:T:depot:parcel { if ((uint64)arg4 > 3) { @unsigned = count(); } if (arg4 > 3) { @signed64 = count(); }"
        " if ((int32)arg4 > 3) { @signed32 = count(); } }",
        scalar("@signed32", 8) + scalar("@signed64", 8) + scalar("@unsigned", 24),
    ),
    Case(
        "decrements_are_signed",
        "usdt:T:depot:parcel { @down[arg0 & 1]--; @less -= arg3; $u = (uint64)0; $u--; @low = $u; }",
        keyed("@down", {0: -20, 1: -20}) + scalar("@less", -sum(r.weight for r in R)) + scalar("@low", -1),
    ),
    said(
        "signed_meets_unsigned",
        'BEGIN { $n = (uint8)250; $n += 10; let $w: uint8 = 255; $w++; @k[(uint64)5] = 1; @k[-1] = 2;'
        ' @v = (uint64)3; @v = -1; $p = (int32 *)16; $p++; printf("%d %d %d %d %d %lld %p\\n",'
        ' (uint64)1 > -1, -5 < (uint64)3, $n, $w, has_key(@k, 4 - 5), @v, $p); clear(@k); clear(@v); exit(); }',
        "1 1 260 0 1 -1 0x14",
    ),
    Case(
        "signed_division_in_a_probe",
        "usdt:T:depot:parcel { @q[(int32)arg4 / 3] = count(); @r[(int32)arg4 % 3] = count(); @s[(int32)arg4 >>"
        " 1] = count(); }",
        keyed("@q", {q: sum(trunc(r.delta, 3) == q for r in R) for q in {trunc(r.delta, 3) for r in R}})
        + keyed(
            "@r",
            {
                m: sum(r.delta - 3 * trunc(r.delta, 3) == m for r in R)
                for m in {r.delta - 3 * trunc(r.delta, 3) for r in R}
            },
        )
        + keyed("@s", {s: sum(r.delta >> 1 == s for r in R) for s in {r.delta >> 1 for r in R}}),
    ),
    Case(
        "division_by_zero",
        "usdt:T:depot:parcel /arg0 == 6/ { @q = arg3 / (arg2 - 2); @r = arg3 % (arg2 - 2); @s = (int64)arg3 /"
        " ((int32)arg4 + 2); }",
        scalar("@q", 1) + scalar("@r", 1) + scalar("@s", 1),
        divisions=3,
    ),
    said(
        "wraps_of_64_bits",
        'BEGIN { $x = 9223372036854775807; $x++; printf("%ld\\n", $x); $u = (uint64)18446744073709551615; $u++;'
        ' printf("%lu\\n", $u); $u = ~(uint64)0; printf("%lu\\n", $u); $m = -9223372036854775807; $m -= 1;'
        ' printf("%ld\\n", $m / -1);'
        ' $m *= 2; printf("%ld\\n", $m); exit(); }',
        "-9223372036854775808\n0\n18446744073709551615\n-9223372036854775808\n0",
    ),
    Case(
        "wraps_in_a_probe",
        "usdt:T:depot:widths /@n < 3/ { @n++; @a = arg6 * 16; @b = (int64)arg6 * 3; @c = arg6 + arg6; @d = 0 - arg6; }",
        scalar("@a", R[2].widths[6] * 16 % 2**64)
        + scalar("@b", (R[2].widths[7] * 3 + 2**63) % 2**64 - 2**63)
        + scalar("@c", R[2].widths[6] * 2 % 2**64)
        + scalar("@d", -R[2].widths[6] % 2**64)
        + scalar("@n", 3),
    ),
    Case(
        "shifts_in_a_probe",
        "usdt:T:depot:parcel /arg0 == 3/ { $n = (int64)arg0; @a = $n << 62; @b = -$n >> 1; @c = (uint64)-$n >>"
        " 60; @d = 1 << (arg0 * 20); }",
        scalar("@a", -(1 << 62)) + scalar("@b", -2) + scalar("@c", 15) + scalar("@d", 1 << 60),
    ),
    said(
        "casts",
        'BEGIN { printf("%d %d %d %d\\n", (int8)255, (uint8)256, (int16)65535, (uint32)-1); $n = -1;'
        ' printf("%u %u %u %lu\\n", (uint8)$n, (uint16)$n, (uint32)$n, (uint64)$n); $m = 4294967295 + 129;'
        ' printf("%d %d %d\\n", (int8)$m, (int32)$m, (int64)(uint8)$m); exit(); }',
        "-1 0 -1 -1\n255 65535 4294967295 18446744073709551615\n-128 128 128",
    ),
    Case(
        "casts_in_a_probe",
        "usdt:T:depot:widths { @a[(int8)arg6 < 0] = count(); @b = sum((uint8)arg6); @c = sum((int16)arg4); @d ="
        " max((uint32)arg7); }",
        keyed("@a", {b: sum((r.widths[6] & 0x80 != 0) == b for r in R) for b in (False, True)})
        + scalar("@b", sum(r.widths[6] & 0xFF for r in R))
        + scalar("@c", sum((r.widths[4] + 0x8000) % 0x10000 - 0x8000 for r in R))
        + scalar("@d", max(r.widths[7] & 0xFFFFFFFF for r in R)),
    ),
    said(
        "integer_literals",
        'BEGIN { printf("%d %d %d %d\\n", 0xff, 1e3, 1_000_000, 017); exit(); }',
        "255 1000 1000000 15",
    ),
    Case(
        "strings_compare",
        'usdt:T:depot:parcel { if (str(arg1) == "bolts") { @eq = count(); } if (str(arg1) != "bolts") { @ne ='
        " count(); }"
        ' if (str(arg1) == "bolt") { @prefix = count(); } }',
        scalar("@eq", 8) + scalar("@ne", 32),
    ),
    Case(
        "strings_kept_and_compared",
        "usdt:T:depot:parcel { if (@last == str(arg1)) { @same = count(); } else { @other = count(); } @last ="
        " str(arg1); }",
        scalar("@last", "bolts") + scalar("@other", 40),
    ),
    Case(
        "strncmp",
        'usdt:T:depot:parcel { if (strncmp(str(arg1), "copper mine", 7) == 0) { @a = count(); } if'
        ' (!strncmp("glue", str(arg1), 9)) { @b = count(); } }',
        scalar("@a", 8) + scalar("@b", 8),
    ),
    said(
        "string_functions",
        'BEGIN { printf("%d %d %d\\n", strlen("cocoa"), strcontains("espresso", "press"), strcontains("tea",'
        ' "coffee")); exit(); }',
        "5 1 0",
    ),
    Case(
        "string_length_in_a_probe",
        "usdt:T:depot:parcel { @[strlen(str(arg1))] = count(); }",
        keyed("@", {n: sum(len(r.item.encode()) == n for r in R) for n in {len(r.item.encode()) for r in R}}),
    ),
    Case(
        "where_a_string_holds_another",
        'usdt:T:depot:parcel { @[strstr(str(arg1), "e"), strstr(str(arg1, 32), str(arg1 + 2, 32))] = count(); }',
        keyed("@", {at: sum(_found(r.item) == at for r in R) for at in {_found(r.item) for r in R}}),
    ),
    Case(
        "bytes_swapped",
        "usdt:T:depot:parcel { @[bswap(arg0), bswap((uint16)arg0)] = count(); }",
        keyed("@", {(r.id << 56, r.id << 8): sum(s.id == r.id for s in R) for r in R}),
    ),
    Case(
        "strings_in_scratch_variables",
        'usdt:T:depot:parcel /arg0 <= 3/ { $s = str(arg1); $t = arg0 == 2 ? "second" : $s; printf("%s %s\\n",'
        " $s, $t); }",
        together(printf(f"{r.item} {'second' if r.id == 2 else r.item}\n") for r in R[:3]),
    ),
    said(
        "tuples",
        'BEGIN { $t = (1, "a", (2, -3)); printf("%d %s %d %d\\n", $t.0, $t.1, $t.2.0, $t.2.1); exit(); }',
        "1 a 2 -3",
    ),
    Case(
        "tuples_in_a_probe",
        "usdt:T:depot:parcel /arg0 <= 2/ { $t = (arg0, str(arg1), (int32)arg4); @[$t.1] = sum($t.0); @last = $t; }",
        keyed("@", {"copper wire": 1, "glue": 2}) + scalar("@last", (2, "glue", 0)),
    ),
    Case(
        "tuples_compare",
        'usdt:T:depot:parcel { if ((arg2, str(arg1)) == (7, "copper wire")) { @ = count(); } }',
        scalar("@", sum((r.zone, r.item) == (7, "copper wire") for r in R)),
    ),
    said(
        "blocks_see_outer_variables",
        'BEGIN { $a = 1; if ($a == 1) { $b = 2; $a += $b; } printf("%d\\n", $a); exit(); }',
        "3",
    ),
    Case(
        "signs_and_widths_mixed",
        "usdt:T:depot:plain /arg0 == 40/ { @a = (int64)arg0 - 41; @b = (uint8)arg0 + (uint8)250; @c = -(int64)arg0;"
        " $s = arg0 + 25; @d = 1 << $s; $m = (int64)1 << 63; @e = $m / ((int64)arg0 - 41); @f = ~(int64)arg0;"
        " @g = (int8)(arg0 + 100); @h = (uint64)((int32)arg0 - 41) >> 60; }",
        scalar("@a", -1)
        + scalar("@b", 290)
        + scalar("@c", -40)
        + scalar("@d", 2)
        + scalar("@e", -(2**63))
        + scalar("@f", -41)
        + scalar("@g", -116)
        + scalar("@h", 15),
    ),
    Case(
        "maps_feed_maps",
        "usdt:T:depot:plain /arg0 < 4/ { @a[arg0] = arg0 * 2; @b[arg0] = @a[arg0] + 1; @c += @b[arg0] *"
        " @a[arg0]; delete(@a, arg0); }",
        keyed("@b", {1: 3, 2: 5, 3: 7}) + scalar("@c", 2 * 3 + 4 * 5 + 6 * 7),
    ),
    Case(
        "strings_feed_maps",
        "usdt:T:depot:label { @s[arg0] = str(arg1); @len[strlen(@s[arg0])] = count(); } END { clear(@s); }",
        keyed("@len", Counter(LABEL_LENGTHS)),
        probes=2,
        truncated=1,
        cold=keyed("@len", Counter(length for at, length in enumerate(LABEL_LENGTHS) if at != COLD)),
    ),
    Case(
        "aggregations_as_values_in_a_probe",
        "usdt:T:depot:parcel { @c = count(); @m = max(arg0); if (@c > 38 && @m > 38) { @late = count(); } }",
        scalar("@c", 40) + scalar("@late", 2) + scalar("@m", 40),
    ),
    Case(
        "length_of_a_map_in_a_probe",
        "usdt:T:depot:parcel { @[arg2] = 1; if (len(@) > 8) { @late = count(); } } END { clear(@); }",
        scalar("@late", 32),
        probes=2,
    ),
    said(
        "integers_and_tuples_as_text",
        'BEGIN { printf("%s %5s|%-5s|%s %s %s\\n", -5, 123, (uint8)7, 18446744073709551615, 1 == 1,'
        ' (1, "a", (2, true))); exit(); }',
        "-5   123|7    |18446744073709551615 true (1, a, (2, true))",
    ),
    said(
        "the_length_of_a_constant_string",
        'BEGIN { printf("%s|%s|%s|%s|%d\\n", str("abc", 2), str("abc", 1), str("abc", 10), str("abc"),'
        ' strlen(str("abc", 2))); exit(); }',
        "ab|a|abc|abc|2",
    ),
    Case(
        "division_by_what_turns_out_to_be_zero",
        "usdt:T:depot:parcel /arg2 == 0/ { @[arg4 / arg2, arg4 % arg2, arg0 / (arg2 * 2), arg3 % arg2] = count(); }"
        " usdt:T:depot:label /arg0 == 0/ { $n = -7; print(($n / arg0, $n % arg0, (uint8)7 / arg0, 7 % arg1 / arg0)); }",
        value((1, 1, 1, 1)) + keyed("@", Counter((1, 1, 1, 1) for r in R if r.zone == 0)),
        probes=2,
        divisions=4 + 4 * sum(r.zone == 0 for r in R),
    ),
    Case(
        "complements",
        "BEGIN { print((~(uint8)1, ~(uint16)1, ~(uint32)1, ~(uint64)1, ~1, ~(int8)1, -(uint8)1)); exit(); }",
        value((254, 65534, 2**32 - 2, 2**64 - 2, -2, -2, -1)),
        target=None,
    ),
    Case(
        "strings_as_patterns_say",
        f"usdt:T:depot:parcel {{ @[{GLOBBED}] = count(); }}"
        ' usdt:T:depot:label /arg1/ { if (globmatch(str(arg1), "*[b-d]?e*")) { @label[arg0] = count(); } }',
        _globbed_labels(range(len(LABELS))),
        probes=2,
        truncated=1,
        cold=_globbed_labels(at for at in range(len(LABELS)) if at != COLD),
    ),
]
