"""The arithmetic and the string functions of prelude.h, compiled for this machine and compared with Python."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from tracer.backends.bcc.attach.loader import LOSS_CAUSES
from tracer.backends.bcc.compile.compiler import bpf_programs
from tracer.lang.aggregations.buckets import linear_bucket, linear_count, log2_bucket, quantile_bucket
from tracer.lang.fixed_width import quotient, remainder, wrap_int

SOURCE = """
#include <linux/types.h>
#include <uapi/linux/ptrace.h>
#define SLEEPABLE 0
#define CONTROL MAP(0)
#define LOSSES MAP(1)
#define RING MAP(2)
struct control { u64 exiting, hit; };
#include "prelude.h"
s64 c_divide_signed(s64 a, s64 b) { return divide_signed(a, b); }
s64 c_remainder_signed(s64 a, s64 b) { return remainder_signed(a, b); }
u64 c_divide(u64 a, u64 b) { return divide(a, b); }
u64 c_remainder(u64 a, u64 b) { return remainder(a, b); }
u32 c_log2(u64 v, u32 bits) { return log2_bucket(v, bits); }
u32 c_quantile(u64 v, u32 bits, u32 half) { return quantile_bucket(v, bits, half); }
u32 c_linear(s64 v, s64 low, s64 high, u64 step, u32 last) { return linear_bucket(v, low, high, step, last); }
u64 c_min(s64 v) { return SIGNED_MIN(v); }
u64 c_max(s64 v) { return SIGNED_MAX(v); }
bool c_same(const u64 *a, const u64 *b) { return same_text(a, b, 8); }
bool c_start4(const u64 *a, const u64 *b) { return same_start(a, b, 0, 4); }
bool c_start19(const u64 *a, const u64 *b) { return same_start(a, b, 2, 3); }
u64 c_length(const u64 *a) { return text_length(a, 8); }
s64 c_find(const u64 *a, const u64 *b, u32 n) { return find(a, 8, b, 2, n); }
"""

OUTRUN = """
#include <linux/types.h>
#include <uapi/linux/ptrace.h>
#define SLEEPABLE 0
#define CONTROL MAP(0)
#define LOSSES MAP(1)
#define RING MAP(2)
struct control { u64 exiting, hit; };
static u64 tries, lasting;
/* Another thread is always one ahead, as long as that lasts. */
#define __sync_val_compare_and_swap(place, seen, value) \\
	(++tries > lasting ? (*(place) = (value), (seen)) : ++*(place))
#include "prelude.h"
static u64 losses[16];
static void *counter(unsigned long map, const void *key) { return map == LOSSES ? &losses[*(u32 *)key] : NULL; }
u64 c_lost(u64 rounds, u32 cause)
{
	u64 extreme = 0;

	map_lookup = counter;
	tries = losses[cause] = 0;
	lasting = rounds;
	raise(&extreme, 1000);
	return losses[cause] << 32 | extreme;
}
"""

SIGNED, UNSIGNED = st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)
TEXTS = st.text("ab", max_size=30).map(str.encode)


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    home = tmp_path_factory.mktemp("prelude")
    (home / "all.c").write_text(SOURCE)
    fixed = bpf_programs()
    includes = [f"-I{fixed}", f"-I{fixed}/kernel/include"]
    command = ["gcc", "-O1", "-fwrapv", "-w", "-shared", "-fPIC", *includes, "-o", str(home / "all.so"), "all.c"]
    subprocess.run(command, cwd=home, check=True)
    lib = ctypes.CDLL(str(home / "all.so"))
    for name in ("divide_signed", "remainder_signed"):
        getattr(lib, f"c_{name}").restype = ctypes.c_int64
        getattr(lib, f"c_{name}").argtypes = [ctypes.c_int64] * 2
    for name in ("divide", "remainder"):
        getattr(lib, f"c_{name}").restype = ctypes.c_uint64
        getattr(lib, f"c_{name}").argtypes = [ctypes.c_uint64] * 2
    lib.c_log2.argtypes = [ctypes.c_uint64, ctypes.c_uint32]
    lib.c_quantile.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
    lib.c_linear.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_uint64, ctypes.c_uint32]
    for name in ("c_min", "c_max"):
        getattr(lib, name).restype = ctypes.c_uint64
        getattr(lib, name).argtypes = [ctypes.c_int64]
    for name in ("c_same", "c_start4", "c_start19"):
        getattr(lib, name).restype = ctypes.c_bool
    return lib


@given(SIGNED, SIGNED)
@example(-(2**63), -1)
@example(-7, 2)
@example(-7, 0)
def test_signed_division_truncates_and_gives_0_for_0(c: ctypes.CDLL, a: int, b: int) -> None:
    assert c.c_divide_signed(a, b) == wrap_int(quotient(a, b), 64, True)
    assert c.c_remainder_signed(a, b) == wrap_int(remainder(a, b), 64, True)


@given(UNSIGNED, UNSIGNED)
@example(2**64 - 1, 0)
def test_unsigned_division_gives_0_for_0(c: ctypes.CDLL, a: int, b: int) -> None:
    assert c.c_divide(a, b) == quotient(a, b)
    assert c.c_remainder(a, b) == remainder(a, b)


@pytest.mark.parametrize("bits", range(6))
def test_log2_buckets_are_those_of_results_buckets(c: ctypes.CDLL, bits: int) -> None:
    edges = {(1 << power) + step for power in range(64) for step in (-2, -1, 0, 1, 2)} | {3 << 40, 2**64 - 1, 2**63}
    for value in sorted(edge & (2**64 - 1) for edge in edges):
        assert c.c_log2(value, bits) == log2_bucket(value, bits), value
        for half in (0, (64 - bits) << bits):
            assert c.c_quantile(value, bits, half) == quantile_bucket(value, bits, half > 0), value


@given(SIGNED, st.integers(-(2**40), 2**40), st.integers(1, 1000), st.integers(1, 1000))
@example(-(2**63), -5, 10, 3)
def test_linear_buckets_are_those_of_results_buckets(
    c: ctypes.CDLL, value: int, low: int, count: int, step: int
) -> None:
    high = low + count * step
    last = linear_count(low, high, step) - 1
    for near in (value, low - 1, low, high - 1, high, low + abs(value) % (count * step)):
        near = wrap_int(near, 64, True)
        assert c.c_linear(near, low, high, step, last) == linear_bucket(near, low, high, step)


@given(SIGNED, SIGNED)
def test_extremes_are_encoded_so_that_further_out_is_larger(c: ctypes.CDLL, a: int, b: int) -> None:
    assert (c.c_max(a) < c.c_max(b)) == (a < b)
    assert (c.c_min(a) < c.c_min(b)) == (a > b)


@given(TEXTS, TEXTS)
@example(b"abababab", b"abababab")
@example(b"abababab", b"ababababa")
def test_strings_are_compared_as_c_compares_them(c: ctypes.CDLL, a: bytes, b: bytes) -> None:
    one, other = (ctypes.create_string_buffer(text, 64) for text in (a, b))
    assert c.c_same(one, other) == (a == b)
    assert c.c_start4(one, other) == (a[:4] == b[:4])
    assert c.c_start19(one, other) == (a[:19] == b[:19])
    assert c.c_length(one) == len(a)


@given(TEXTS, TEXTS.map(lambda text: text[:15]))
@example(b"aab", b"ab")
@example(b"", b"")
def test_a_string_holds_another_where_python_finds_it(c: ctypes.CDLL, a: bytes, b: bytes) -> None:
    one, other = ctypes.create_string_buffer(a, 64), ctypes.create_string_buffer(b, 16)
    assert c.c_find(one, other, len(b)) == a.find(b)


def test_a_value_that_others_outrun_is_counted_for_what_it_is(tmp_path: Path) -> None:
    fixed = bpf_programs()
    includes = [f"-I{fixed}", f"-I{fixed}/kernel/include"]
    built = tmp_path / "outrun.so"
    command = ["gcc", "-O1", "-w", "-shared", "-fPIC", *includes, "-x", "c", "-", "-o", str(built)]
    subprocess.run(command, input=OUTRUN, text=True, check=True)
    lost = ctypes.CDLL(str(built)).c_lost
    lost.restype, lost.argtypes = ctypes.c_uint64, [ctypes.c_uint64, ctypes.c_uint32]
    outrun = LOSS_CAUSES.index("outrun")
    assert lost(63, outrun) == 1000
    assert lost(64, outrun) == (1 << 32) + 64
    assert lost(64, LOSS_CAUSES.index("events")) == 64
