"""Maps: keys of every kind, assignment, counters, and what print, clear, zero and delete make of them."""

from __future__ import annotations

from tests.contract.case import Case, by_hand
from tests.contract.depot import HUNDRED, LABELS, NULL, TOUCHED, rounds, u
from tests.contract.expect import NOTHING, hist, keyed, lhist, no_averages, printf, scalar, together, value
from tests.contract.grouping import by, counted, summed

R = rounds()


def _between_changes(number: int) -> int:
    value = 100 if number & 1 else number
    return 2 * number + (100 if number & 1 else 2 * number) + value + 3 * value + 3 + value + 3


CASES = [
    Case(
        "keys_none_one_several",
        "usdt:T:depot:parcel /arg0 <= 3/ { @last = arg0; @w[arg0] = arg3; @z[arg2, str(arg1)] = arg0; }",
        scalar("@last", 3)
        + keyed("@w", {r.id: r.weight for r in R[:3]})
        + keyed("@z", {(r.zone, r.item): r.id for r in R[:3]}),
    ),
    Case(
        "key_of_strings",
        "usdt:T:depot:parcel { @[str(arg1)] = count(); }",
        by_hand(
            '@[3" "brass" nails]: 8\n@[bolts]: 8\n@[copper wire]: 8\n@[glue]: 8\n@[étau]: 8\n',
            '{"type": "map", "data": {"@": {"3\\" \\"brass\\" nails": 8, "bolts": 8, "copper wire": 8, "glue": 8,'
            ' "étau": 8}}}',
        ),
    ),
    Case(
        "key_of_negatives",
        "usdt:T:depot:parcel { @[(int64)arg4] = count(); }",
        by_hand(
            "".join(f"@[{d}]: 4\n" for d in range(-4, 6)),
            '{"type": "map", "data": {"@": {' + ", ".join(f'"{d}": 4' for d in range(-4, 6)) + "}}}",
        ),
    ),
    Case(
        "key_of_negatives_unsigned",
        "usdt:T:depot:parcel /arg4 >= -1/ { @[(uint64)arg4] = count(); }",
        keyed("@", {u(d): 4 for d in range(-1, 6)}),
    ),
    Case(
        "key_of_tuple",
        "usdt:T:depot:parcel /arg0 <= 5/ { @[(arg2, str(arg1))] = sum(arg3); }",
        keyed("@", {(r.zone, r.item): r.weight for r in R[:5]}),
    ),
    Case(
        "key_of_expressions",
        'usdt:T:depot:parcel { @[arg2 % 3, arg0 > 20, str(arg1) == "glue"] = count(); }',
        keyed(
            "@",
            {
                key: sum((r.zone % 3, r.id > 20, r.item == "glue") == key for r in R)
                for key in {(r.zone % 3, r.id > 20, r.item == "glue") for r in R}
            },
        ),
    ),
    Case(
        "key_order_of_ties",
        "usdt:T:depot:parcel { @[str(arg1), (int32)arg4 % 2] = count(); }",
        keyed(
            "@",
            {
                key: sum((r.item, int(r.delta / abs(r.delta or 1)) * (abs(r.delta) % 2)) == key for r in R)
                for key in {(r.item, int(r.delta / abs(r.delta or 1)) * (abs(r.delta) % 2)) for r in R}
            },
        ),
    ),
    Case(
        "assign_strings_and_tuples",
        "usdt:T:depot:parcel { @item = str(arg1); @last = arg0; @pair = (arg0, str(arg1)); }",
        scalar("@item", "bolts") + scalar("@last", 40) + scalar("@pair", (40, "bolts")),
    ),
    Case(
        "clear_and_zero_of_every_kind",
        "usdt:T:depot:plain { if (arg0 == 20) { clear(@c); } @c = count(); @k[arg0 % 2] = count();"
        " if (arg0 == 30) { zero(@k); } @z[arg0 % 3] = min(arg0); if (arg0 == 40) { zero(@z); } @m[arg0 % 4] = arg0;"
        " if (arg0 == 38) { clear(@m); } @h = lhist(arg0, 0, 40, 10); if (arg0 == 25) { clear(@h); } }",
        scalar("@c", 21)
        + lhist("@h", list(range(26, 41)), 0, 40, 10)
        + keyed("@k", {0: 5, 1: 5})
        + keyed("@m", {3: 39, 0: 40})
        + keyed("@z", {0: 0, 1: 0, 2: 0}),
    ),
    Case(
        "print_and_clear_in_a_probe",
        "usdt:T:depot:plain { @c = count(); @k[arg0 % 2] = max(arg0); @s[arg0 % 2] = arg0; @n += arg0;"
        " if (arg0 % 15 == 7) { print(@c); clear(@c); print(@k); print(@s); zero(@k); clear(@s); print(@n); zero(@n); }"
        " }",
        together(
            scalar("@c", count) + keyed("@k", last) + keyed("@s", last) + scalar("@n", total)
            for count, last, total in (
                (7, {0: 6, 1: 7}, sum(range(8))),
                (15, {1: 21, 0: 22}, sum(range(8, 23))),
                (15, {0: 36, 1: 37}, sum(range(23, 38))),
            )
        )
        + scalar("@c", 3)
        + keyed("@k", {1: 39, 0: 40})
        + scalar("@n", 38 + 39 + 40)
        + keyed("@s", {1: 39, 0: 40}),
    ),
    Case(
        "what_probes_clear_begin_has_filled",
        "BEGIN { @c = count(); @k[5] = sum(3); @h = hist(4); @u = count(); }"
        " usdt:T:depot:plain { if (arg0 == 20) { clear(@c); zero(@k); clear(@h); clear(@u); }"
        " @c = count(); @k[arg0 % 2] = sum(1); } END { @c = count(); @u = count(); }",
        scalar("@c", 22) + keyed("@k", {5: 0, 1: 10, 0: 11}) + scalar("@u", 1),
        probes=3,
    ),
    Case(
        "reading_what_begin_has_counted",
        "BEGIN { @c = count(); } usdt:T:depot:plain { @c = count(); @n = max((int64)@c); }",
        scalar("@c", 41) + scalar("@n", 41),
        probes=2,
        refused={"bcc": "shared"},
    ),
    Case(
        "length_of_what_a_probe_clears",
        "usdt:T:depot:plain { @c[arg0] = count(); @n = max(len(@c)); if (arg0 % 7 == 0) { clear(@c); } }",
        keyed("@c", {n: 1 for n in range(36, 41)}) + scalar("@n", 7),
        refused={"bcc": "length"},
    ),
    Case(
        "value_of_a_missing_key",
        'BEGIN { @a[1] = 5; @s[1] = "x"; $n = @a[2]; printf("%d [%s]\\n", $n, @s[2]); exit(); }',
        printf("0 []\n") + keyed("@a", {1: 5}) + keyed("@s", {1: "x"}),
        target=None,
    ),
    Case(
        "compound_assignment",
        "usdt:T:depot:parcel { @add += arg0; @sub -= arg0; @or |= arg0; @xor ^= arg0; @k[arg2] += arg3; }",
        scalar("@add", 820)
        + keyed("@k", summed("zone"))
        + scalar("@or", 63)
        + scalar("@sub", -820)
        + scalar("@xor", 40),
    ),
    Case(
        "compound_assignment_of_the_rest",
        "BEGIN { @mul = 1; @shl = 1; @shr = 1 << 40; @and = 255; @div = 1000000; @mod = 1000003; }"
        " usdt:T:depot:parcel /arg0 <= 3/ { @mul *= 3; @shl <<= 2; @shr >>= 3; @and &= 252 + (int64)arg0;"
        " @div /= 10; @mod %= 1000 - (int64)arg0 * 100; }",
        scalar("@and", 255 & 253 & 254 & 255)
        + scalar("@div", 1000)
        + scalar("@mod", 1000003 % 900 % 800 % 700)
        + scalar("@mul", 27)
        + scalar("@shl", 64)
        + scalar("@shr", 1 << 31),
        probes=2,
    ),
    Case(
        "counters",
        "usdt:T:depot:parcel { @n++; ++@p; @d--; --@e; @k[arg2]++; }",
        scalar("@d", -40) + scalar("@e", -40) + keyed("@k", counted("zone")) + scalar("@n", 40) + scalar("@p", 40),
    ),
    Case(
        "counters_as_values",
        'usdt:T:depot:plain /arg0 <= 2/ { $a = @n++; $b = ++@n; $c = @n--; $d = --@m; printf("%d %d %d %d\\n",'
        " $a, $b, $c, $d); }",
        printf("0 2 2 -1\n") + printf("1 3 3 -2\n") + scalar("@m", -2) + scalar("@n", 2),
    ),
    Case(
        "print_a_map",
        "usdt:T:depot:parcel { @[arg2] = sum(arg3); } END { print(@); clear(@); }",
        keyed("@", summed("zone")),
        probes=2,
    ),
    Case(
        "print_the_top",
        "usdt:T:depot:parcel { @[arg2] = sum(arg3); } END { print(@, 2); clear(@); }",
        keyed("@", dict(sorted(summed("zone").items(), key=lambda row: (row[1], row[0]))[-2:])),
        probes=2,
    ),
    Case(
        "print_divided",
        "usdt:T:depot:parcel { @[arg2] = sum(arg3); } END { print(@, 3, 100); clear(@); }",
        keyed(
            "@",
            {zone: total // 100 for zone, total in sorted(summed("zone").items(), key=lambda row: row[1])[-3:]},
        ),
        probes=2,
    ),
    Case(
        "print_one_key",
        "usdt:T:depot:parcel { @[arg2] = sum(arg3); } END { print(@[5]); clear(@); }",
        value(summed("zone")[5]),
        probes=2,
    ),
    Case(
        "print_values",
        'BEGIN { print(1 - 3); print("text"); print((1, ("two", 3), -4)); print(1 == 1); @x = 7; print(@x);'
        " clear(@x); exit(); }",
        by_hand(
            "-2\ntext\n(1, (two, 3), -4)\ntrue\n@x: 7\n",
            '{"type": "value", "data": -2}',
            '{"type": "value", "data": "text"}',
            '{"type": "value", "data": [1,["two",3],-4]}',
            '{"type": "value", "data": true}',
            '{"type": "map", "data": {"@x": 7}}',
        ),
        target=None,
    ),
    Case(
        "print_values_in_a_probe",
        "usdt:T:depot:parcel /arg0 <= 2/ { print(str(arg1)); print((arg0, (int32)arg4)); }",
        value("copper wire") + value((1, 3)) + value("glue") + value((2, 0)),
    ),
    Case(
        "zero_and_clear",
        "usdt:T:depot:parcel { @a[arg2 & 1] = count(); @b = count(); @c[arg2] = hist(arg3); @d = 3; }"
        " END { zero(@a); clear(@b); clear(@c); zero(@d); }",
        by_hand(
            "@a[0]: 0\n@a[1]: 0\n@d: 0\n",
            '{"type": "map", "data": {"@a": {"0": 0, "1": 0}}}',
            '{"type": "map", "data": {"@d": 0}}',
        ),
        probes=2,
    ),
    Case(
        "clear_and_zero_in_a_probe",
        "usdt:T:depot:plain { if (arg0 == 20) { clear(@c); } @c = count(); @k[arg0 % 2] = count();"
        " if (arg0 == 30) { zero(@k); } }",
        # The hit that clears counts after it; the one that zeroes counted before.
        scalar("@c", 21) + keyed("@k", {0: 5, 1: 5}),
    ),
    Case(
        "delete_in_end",
        "usdt:T:depot:parcel { @[arg2] = count(); } END { delete(@, 3); delete(@[4]); delete(@, 99); }",
        keyed("@", {zone: n for zone, n in counted("zone").items() if zone not in (3, 4)}),
        probes=2,
    ),
    Case(
        "delete_in_a_probe",
        "usdt:T:depot:parcel { @open[arg0] = arg2; } usdt:T:depot:plain /@open[arg0] != 3/ { delete(@open, arg0); }",
        keyed("@open", {r.id: 3 for r in R if r.zone == 3}),
        probes=2,
    ),
    Case(
        "length_of_a_map",
        'usdt:T:depot:parcel { @[arg2] = count(); } END { printf("%d\\n", len(@)); clear(@); }',
        printf("10\n"),
        probes=2,
    ),
    Case(
        "has_key",
        'BEGIN { @[1] = 0; if (has_key(@, 1)) { printf("yes\\n"); } if (!has_key(@, 2)) { printf("no\\n"); }'
        " clear(@); exit(); }",
        printf("yes\n") + printf("no\n"),
        target=None,
    ),
    Case(
        "aggregations_as_values_in_end",
        "usdt:T:depot:parcel { @n = count(); @s = sum(arg3); @a = avg(arg3); @hi = max((int32)arg4); }"
        ' END { printf("%d %d %d %d\\n", @n, @s, @a, @hi); if (@n > 39) { printf("many\\n"); }'
        " clear(@n); clear(@s); clear(@a); clear(@hi); }",
        printf(f"40 {sum(r.weight for r in R)} {sum(r.weight for r in R) // 40} 5\n")
        + printf("many\n")
        + no_averages("@a"),
        probes=2,
    ),
    Case(
        "for_over_a_map_in_end",
        "usdt:T:depot:parcel { @[arg2] = count(); } END { for ($kv : @) { @keys = sum($kv.0); @vals ="
        " sum((int64)$kv.1); } clear(@); }",
        scalar("@keys", 45) + scalar("@vals", 40),
        probes=2,
    ),
    Case(
        "integers_beyond_a_double",
        "BEGIN { @a = 9223372036854775807; @b = (uint64)18446744073709551615; @c = -9223372036854775807; exit(); }",
        by_hand(
            "@a: 9223372036854775807\n@b: 18446744073709551615\n@c: -9223372036854775807\n",
            '{"type": "map", "data": {"@a": "9223372036854775807"}}',
            '{"type": "map", "data": {"@b": "18446744073709551615"}}',
            '{"type": "map", "data": {"@c": "-9223372036854775807"}}',
        ),
        target=None,
    ),
    Case(
        "keys_with_newlines_and_quotes",
        "usdt:T:depot:label /arg0 > 5/ { @[str(arg1)] = count(); }",
        by_hand(
            "@[naïve café – ☕]: 1\n@[say \"hi\" \\ 'there']: 1\n@[two\nlines\tand a tab]: 1\n",
            '{"type": "map", "data": {"@": {"naïve café – ☕": 1, "say \\"hi\\" \\\\ \'there\'": 1,'
            ' "two\\nlines\\tand a tab": 1}}}',
        ),
    ),
    Case(
        "key_of_a_null_pointer_is_empty",
        "usdt:T:depot:label /arg0 == 2 || arg0 == 3/ { @[str(arg1)] = count(); }",
        by_hand("@[]: 2\n", '{"type": "map", "data": {"@": {"": 2}}}'),
    ),
    Case(
        "key_of_long_strings",
        "usdt:T:depot:label /arg0 == 4 || arg0 == 0/ { @[str(arg1)] = sum(arg0); }",
        keyed("@", {str(LABELS[HUNDRED]): 4, str(LABELS[TOUCHED]): 0}),
    ),
    Case("no_key_no_map", f"usdt:T:depot:label /arg0 == {NULL} && arg1 != 0/ {{ @[arg0] = count(); }}", NOTHING),
    Case(
        "scratch_beside_maps",
        "usdt:T:depot:parcel { $heavy = arg3 > 400; $z = arg2; if ($heavy) { @heavy[$z] = count(); } }",
        keyed(
            "@heavy",
            {z: len([r for r in g if r.weight > 400]) for z, g in by("zone").items() if any(r.weight > 400 for r in g)},
        ),
    ),
    Case(
        "a_value_read_between_changes",
        "usdt:T:depot:parcel /@v[tid] == 0/ {"
        " $s = @v[tid]; @v[tid] = arg0; $s = $s + @v[tid] + @v[tid];"
        " if (arg0 & 1) { @v[tid] = 100; $s = $s + @v[tid]; } else { $s = $s + @v[tid] * 2; }"
        " $s = $s + @v[tid]; $i = 0; while ($i < 3) { $s = $s + @v[tid]; @v[tid] = @v[tid] + 1; $i++; }"
        " $s = $s + @v[tid]; delete(@v, tid); $s = $s + @v[tid] * 1000; @ = sum($s);"
        " @n[pid]++; $n = @n[pid]; $m = @n[pid]++ + @n[pid]; @m = sum($m - 2 * $n); }"
        " END { clear(@n); }",
        scalar("@", sum(_between_changes(r.id) for r in R)) + scalar("@m", 40),
        probes=2,
    ),
    Case(
        "a_variable_by_its_address",
        "macro more(p) { *p + 1 } usdt:T:depot:parcel { $x = arg0; $p = &$x; $q = (uint8 *)$p; @a = sum(*$p);"
        " @b = sum($q[0] + $q[7]); $x = 300; @c = sum(*$p + $q[1]); $s = 0; for ($i : 0..8) { $s += $q[$i]; }"
        " @d = sum($s); @e = sum(more(&$x)); }",
        scalar("@a", sum(round.id for round in R))
        + scalar("@b", sum(round.id & 255 for round in R))
        + scalar("@c", 301 * len(R))
        + scalar("@d", (44 + 1) * len(R))
        + scalar("@e", 301 * len(R)),
    ),
    Case(
        "maps_that_would_forget",
        "let @v = lruhash(5000); let @c = percpulruhash(5000); let @h = percpulruhash(5000);"
        " usdt:T:depot:parcel { @v[arg0 & 3] = arg0; @v[arg0 & 3] += 1; @c[arg0 & 3] = count();"
        " @h[1] = hist(arg0 & 3); }",
        keyed("@c", {key: sum(round.id & 3 == key for round in R) for key in range(4)})
        + hist("@h", {1: [round.id & 3 for round in R]})
        + keyed("@v", {round.id & 3: round.id + 1 for round in R}),
    ),
    Case(
        "a_map_without_keys_prints_while_it_is_empty",
        "BEGIN { print(@n); } usdt:T:depot:callback { print(@n); print(@c); print(@m); print(@a); print(@s); print(@h);"
        " print(@t); print(@k); print(@n, 3, 2); } usdt:T:depot:parcel /arg0 > 1000/ { @n = arg4; @c = count(); @m ="
        " min(arg4); @a = avg(arg4); @s = stats(arg4); @h = hist(arg4); @t = (arg0, str(arg1), arg0 > 3);"
        " @k[arg0] = 1; }",
        scalar("@n", 0)
        + scalar("@n", 0)
        + scalar("@c", 0)
        + scalar("@m", 0)
        + scalar("@a", 0, "stats")
        + by_hand(
            "@s: { .count = 0, .average = 0, .total = 0 }\n",
            '{"type": "stats", "data": {"@s": {"count": 0, "average": 0, "total": 0}}}',
        )
        + scalar("@t", (0, "", False))
        + scalar("@n", 0)
        + no_averages("@a")
        + no_averages("@s"),
        probes=3,
    ),
    Case(
        "a_map_cleared_before_it_prints",
        'BEGIN { @n = 5; @s = "abc"; print(@n); clear(@n); clear(@s); print(@n); print(@s); exit(); }',
        scalar("@n", 5) + scalar("@n", 0) + scalar("@s", ""),
        target=None,
    ),
]
