"""Arguments as the notes of USDT probes state them: signed ones are int64 wherever they go, unsigned ones uint64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.contract.case import Case
from tests.contract.depot import Round, rounds, signed
from tests.contract.expect import Out, average, hist, keyed, lhist, printf, scalar, stats, together, value

R = rounds()
FUNCTIONS = ("avg", "max", "min", "stats", "sum")
NARROW = {"s16": 3, "s32": 5, "s8": 1}
"""The signed arguments of `widths` whose sums fit in 64 bits, in the order in which maps print."""


Widths = tuple[int, ...]
PREDICATES: tuple[tuple[str, Callable[[Widths], bool]], ...] = (
    ("arg1 < 0", lambda w: w[1] < 0),
    ("arg3 > -20000", lambda w: w[3] > -20000),
    ("arg5 <= -1 && arg0 > 50", lambda w: w[5] <= -1 and w[0] > 50),
    ("arg7 >= 0", lambda w: w[7] >= 0),
    ("-5 > arg7 || arg1 == 37", lambda w: w[7] < -5 or w[1] == 37),
    ("!(arg7 < 1000)", lambda w: w[7] >= 1000),
    ("arg6 > 9223372036854775807", lambda w: w[6] > 2**63 - 1),
    ("arg1 > -4294967297", lambda _: True),
)


def _of(index: int) -> list[int]:
    return [r.widths[index] for r in R]


def _aggregated(name: str, values: list[int]) -> Out:
    return together(
        (
            average(f"@{name}_avg", values),
            scalar(f"@{name}_max", max(values)),
            scalar(f"@{name}_min", min(values)),
            stats(f"@{name}_stats", values),
            scalar(f"@{name}_sum", sum(values)),
        )
    )


def _quotient(one: int, other: int) -> int:
    return abs(one) // other * (1 if one >= 0 else -1)


def _computed(r: Round) -> tuple[int, ...]:
    s8, u16, s16, s64 = r.widths[1], r.widths[2], r.widths[3], r.widths[7]
    return (
        *(_quotient(s16, 3), s16 - 3 * _quotient(s16, 3), s64 >> 3, s8 << 4, -s16, ~s16, ~u16),
        *(s8 & 240, s8 * s16, s8 - u16, s8 + u16),
    )


CASES = [
    Case(
        "signed_arguments_are_aggregated_signed",
        "usdt:T:depot:widths { "
        + " ".join(f"@{name}_{each} = {each}(arg{index});" for name, index in NARROW.items() for each in FUNCTIONS)
        + " }",
        together(_aggregated(name, _of(index)) for name, index in NARROW.items()),
    ),
    Case(
        "signed_arguments_of_64_bits",
        "usdt:T:depot:widths { @hi = max(arg7); @lo = min(arg7); @s = sum(arg7); @u = max(arg6); @v = sum(arg6); }",
        scalar("@hi", max(_of(7)))
        + scalar("@lo", min(_of(7)))
        + scalar("@s", signed(sum(_of(7))))
        + scalar("@u", max(_of(6)))
        + scalar("@v", sum(_of(6)) % 2**64),
    ),
    Case(
        "signed_arguments_in_histograms",
        "usdt:T:depot:widths { @a = hist(arg3); @b = hist(arg5, 2); @c = lhist(arg1, -128, 128, 32);"
        " @d = lhist(arg3, 0, 8192, 1024); @k[arg1 < 0] = hist(arg7); }",
        hist("@a", _of(3))
        + hist("@b", _of(5), 2)
        + lhist("@c", _of(1), -128, 128, 32)
        + lhist("@d", _of(3), 0, 8192, 1024)
        + hist("@k", {sign: [r.widths[7] for r in R if (r.widths[1] < 0) == sign] for sign in (False, True)}),
    ),
    Case(
        "signed_arguments_as_keys",
        "usdt:T:depot:widths /arg0 < 100/ { @a[arg1] = count(); @b[arg3, arg5] = sum(arg7); @c[arg7] = arg3; }",
        keyed("@a", Counter(r.widths[1] for r in R if r.widths[0] < 100))
        + keyed("@b", {(r.widths[3], r.widths[5]): r.widths[7] for r in R if r.widths[0] < 100})
        + keyed("@c", {r.widths[7]: r.widths[3] for r in R if r.widths[0] < 100}),
    ),
    Case(
        "signed_arguments_printed",
        "usdt:T:depot:widths /arg0 < 40/ { print(arg1); print((arg3, arg5, arg7)); print(arg6);"
        ' printf("%d %d %u %x %lld %lld %llu %5d|%-6ld|%hhd %llx %s %s\\n",'
        " arg1, arg3, arg3, arg5, arg5, arg7, arg7, arg1, arg3, arg1, arg1, arg3, arg6); }",
        together(
            value(s8)
            + value((s16, s32, s64))
            + value(u64)
            + printf(
                f"{s8} {s16} {s16 % 2**32} {s32 % 2**32:x} {s32} {s64} {s64 % 2**64} {s8:5}|{s16:<6}|{s8}"
                f" {s8 % 2**64:x} {s16} {u64}\n"
            )
            for u8, s8, _, s16, _, s32, u64, s64 in (r.widths for r in R)
            if u8 < 40
        ),
    ),
    Case(
        "signed_arguments_compared",
        "usdt:T:depot:widths { if (arg1 < 0) { @a = count(); } if (arg3 >= -5000) { @b = count(); }"
        " if (arg5 <= arg7) { @c = count(); } if (arg1 == -20) { @d = count(); } if (0 > arg7) { @e = count(); }"
        " if (arg1 < arg0) { @f = count(); } if (arg3 < arg2 && arg5 != arg3) { @g = count(); }"
        " @h = max(arg5 > 0 ? arg5 : -arg5); }",
        together(
            scalar(f"@{name}", count)
            for name, count in {
                "a": sum(r.widths[1] < 0 for r in R),
                "b": sum(r.widths[3] >= -5000 for r in R),
                "c": sum(r.widths[5] <= r.widths[7] for r in R),
                "d": sum(r.widths[1] == -20 for r in R),
                "e": sum(r.widths[7] < 0 for r in R),
                "f": sum(r.widths[1] < r.widths[0] for r in R),
                "g": sum(r.widths[3] < r.widths[2] and r.widths[5] != r.widths[3] for r in R),
                "h": max(abs(r.widths[5]) for r in R),
            }.items()
            if count
        ),
    ),
    *(
        Case(
            f"predicate_on_a_signed_argument_{number}",
            f"usdt:T:depot:widths /{predicate}/ {{ @ = count(); }}",
            scalar("@", sum(map(holds, (r.widths for r in R)))),
        )
        for number, (predicate, holds) in enumerate(PREDICATES)
    ),
    Case(
        "signed_arguments_in_arithmetic",
        "usdt:T:depot:widths /arg0 < 40/ { print((arg3 / 3, arg3 % 3, arg7 >> 3, arg1 << 4, -arg3, ~arg3, ~arg2,"
        " arg1 & 240, arg1 * arg3, arg1 - arg2, arg1 + arg2)); }",
        together(value(_computed(r)) for r in R if r.widths[0] < 40),
    ),
    Case(
        "constants_and_globals_of_a_note_keep_their_sign",
        "usdt:T:depot:fixed { @a = min(arg1); @b = max(arg2); @c = sum(arg3); @k[arg1, arg3] = count(); print(arg1); }"
        " usdt:T:depot:gauge { @g[arg0] = min(arg1); }",
        value(-7)
        + scalar("@a", -7)
        + scalar("@b", 0x7FFFFFFFFFFFFFFE)
        + scalar("@c", 200)
        + keyed("@g", {80: -5})
        + keyed("@k", {(-7, 200): 1}),
        probes=2,
    ),
    Case(
        "an_argument_signed_at_one_of_its_sites_is_signed",
        "usdt:T:depot:parcel, usdt:T:depot:widths { @hi = max(arg4); @lo = min(arg4); @s = sum(arg4);"
        " @k[arg4 < 0] = count(); @q = min(arg3); }",
        scalar("@hi", max(r.widths[4] for r in R))
        + keyed("@k", Counter(n < 0 for r in R for n in (r.delta, r.widths[4])))
        + scalar("@lo", min(r.delta for r in R))
        + scalar("@q", min(_of(3)))
        + scalar("@s", sum(r.delta + r.widths[4] for r in R)),
        probes=2,
    ),
    Case(
        "signed_and_unsigned_arguments_in_one_map",
        "usdt:T:depot:parcel { @s[arg0] = arg3; @k[arg4] = count(); } usdt:T:depot:widths { @s[arg0] = arg1;"
        " @k[arg2] = count(); @m = min(arg6 & 1023); @m = min(arg3); } END { clear(@s); }",
        keyed("@k", Counter(n for r in R for n in (r.delta, r.widths[2]))) + scalar("@m", min(_of(3))),
        probes=3,
    ),
    Case(
        "the_complement_of_an_unsigned_value_has_its_size",
        "usdt:T:depot:widths /arg0 == 37/ { print((~(uint8)arg0, ~(uint16)arg2, ~(uint32)arg4, ~(uint64)arg6,"
        " ~(int8)arg1, ~(int64)arg6)); @ = sum(~(uint8)arg0); @k[~(uint16)arg1] = count(); }",
        value(
            (
                *(~37 & 0xFF, ~1021 & 0xFFFF, ~4000000007 & 0xFFFFFFFF, ~0xF123456789ABCDEF % 2**64),
                *(~37, signed(~0xF123456789ABCDEF)),
            )
        )
        + scalar("@", 218)
        + keyed("@k", {~37 & 0xFFFF: 1}),
    ),
]
