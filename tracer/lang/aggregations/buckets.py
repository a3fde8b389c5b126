"""The buckets of histograms have one numbering, for the C prelude, Python and the renderers.

hist(v, k): v is read as a signed 64-bit integer, as bpftrace reads it whatever its type. Bucket 0 holds the negatives;
values below 2^k have a bucket each (v + 1); above, each power of two is cut into 2^k equal parts. With k = 0 this
gives [0] [1] [2, 4) [4, 8) …

lhist(v, low, high, step): bucket 0 holds what is below `low`, then come buckets of `step` values. The last one (see
`linear_count`) is open: it begins at the last multiple of `step` from `low` that is not above `high`, so that a `high`
in between (`lhist(v, 0, 10, 3)`: …, [6, 9), [9, ...)) gives the buckets that bpftrace gives.

quantiles(v): as hist, but that unsigned values have buckets up to 2^64, and negative ones the buckets of -1 - v, from
the middle downwards.
"""

from __future__ import annotations


def log2_bucket(value: int, bits: int) -> int:
    """The bucket of hist(value, bits), 0 to (64 - bits) * 2**bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    if value >> 63:
        return 0
    exponent = value.bit_length() - 1
    if exponent < bits:
        return value + 1
    return 1 + ((exponent - bits) << bits) + (value >> (exponent - bits))


def log2_bounds(bucket: int, bits: int) -> tuple[int | None, int]:
    """First value of a bucket and the first value after it; (None, 0) for the negatives."""
    if bucket == 0:
        return None, 0
    value = bucket - 1
    if value < 2 << bits:
        return value, value + 1
    shift = (value >> bits) - 1
    low = (value - (shift << bits)) << shift
    return low, low + (1 << shift)


def quantile_count(bits: int, signed: bool) -> int:
    """The number of buckets of quantiles()."""
    return 2 * ((64 - bits) << bits) if signed else (65 - bits) << bits


def quantile_bucket(value: int, bits: int, signed: bool) -> int:
    """The bucket of a value of quantiles(), read as signed or unsigned: a greater value is in no lower one."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    half = (64 - bits) << bits if signed else 0
    below = signed and value >> 63
    rest = value ^ 0xFFFF_FFFF_FFFF_FFFF if below else value
    shift = max(rest.bit_length() - 1 - bits, 0)
    place = (shift << bits) + (rest >> shift)
    return half - 1 - place if below else half + place


def quantile_bounds(bucket: int, bits: int, signed: bool) -> tuple[int, int]:
    """First value of a bucket of quantiles() and the first value after it."""
    half = (64 - bits) << bits if signed else 0
    place = half - 1 - bucket if bucket < half else bucket - half
    shift = max((place >> bits) - 1, 0)
    low = (place - (shift << bits)) << shift
    return (-low - (1 << shift), -low) if bucket < half else (low, low + (1 << shift))


def linear_count(low: int, high: int, step: int) -> int:
    """The number of buckets of lhist(), the two open ones included."""
    return (high - low) // step + 2


def linear_bucket(value: int, low: int, high: int, step: int) -> int:
    """The bucket of lhist(value, low, high, step); value is a signed 64-bit integer, in any representation."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    value -= (value >> 63) << 64
    if value < low:
        return 0
    if value >= high:
        return linear_count(low, high, step) - 1
    return (value - low) // step + 1


def linear_bounds(bucket: int, low: int, high: int, step: int) -> tuple[int | None, int | None]:
    """First value of a bucket and the first value after it; None where it is open."""
    return (
        None if bucket == 0 else low + (bucket - 1) * step,
        None if bucket == linear_count(low, high, step) - 1 else low + bucket * step,
    )
