/* Histograms, and additions to maps; prelude.h includes it. */
#pragma once

/* --- histograms ------------------------------------------------------------------------------------------------ */

/* 16, say, where `value` has a bit above the low 16, else 0. */
#define WIDER(value, bits) ((((1ULL << (bits)) - 1 - (value)) >> 63) * (bits))

/* As log2_bucket of lang/aggregations/buckets.py: bucket 0 for negatives, one for each value below 2^bits, 2^bits for
 * each power of two above. This one takes no negatives. */
static __always_inline u32 log2_place(u64 value, u32 bits)
{
	u64 exponent, step, rest = value;

	exponent = WIDER(rest, 32);
	rest >>= exponent;
	step = WIDER(rest, 16);
	rest >>= step;
	exponent += step;
	step = WIDER(rest, 8);
	rest >>= step;
	exponent += step;
	step = WIDER(rest, 4);
	rest >>= step;
	exponent += step;
	step = WIDER(rest, 2);
	rest >>= step;
	exponent += step + (rest >> 1);
	if (exponent < bits || !value)
		return value + 1;
	return 1 + ((exponent - bits) << bits) + (value >> (exponent - bits));
}

static __always_inline u32 log2_bucket(u64 value, u32 bits)
{
	return value >> 63 ? 0 : log2_place(value, bits);
}

/* As quantile_bucket of lang/aggregations/buckets.py; `half` is 0 for unsigned values. */
static __always_inline u32 quantile_bucket(u64 value, u32 bits, u32 half)
{
	u64 below = half ? -(value >> 63) : 0, place;

	value ^= below;
	if (value >> 63)
		place = ((63 - bits) << bits) + (value >> (63 - bits));
	else
		place = log2_place(value, bits) - 1;
	return half + (place ^ below);
}

static __always_inline u32 linear_bucket(s64 value, s64 low, s64 high, u64 step, u32 last)
{
	if (value < low)
		return 0;
	if (value >= high)
		return last;
	return ((u64)value - (u64)low) / step + 1;
}

/* --- values of maps -------------------------------------------------------------------------------------------- */

struct total {
	u64 hits, total;
};

/* Whether a look-up found something. The compiler must not see that this is a test of a pointer: joined with another
 * test it would become arithmetic on the pointer, which the verifier refuses. */
static __always_inline u64 present(const void *found)
{
	u64 there = found != NULL;

	OPAQUE(there);
	return there;
}

/* A new key, where the program asks for len(). */
static __always_inline void made(u64 *length)
{
	if (length)
		__sync_fetch_and_add(length, 1);
}

/* A map had no room for a new key. Each map has a counter of its own, by its number. */
static __always_inline void lose_key(unsigned long map)
{
#ifdef FULL_MAPS
	lose(FULL_MAPS + (u32)map / 3);
#else
	lose(LOST_KEYS);
#endif
}

/* An element that may not be there yet. Another CPU, or another task on this one, may create it first: then this
 * program adds to that one. */
static __always_inline void counter_add(unsigned long map, const void *key, u64 value, u64 *length)
{
	u64 *counter = map_lookup(map, key);

	if (!counter) {
		if (!map_update(map, key, &value, UPDATE_NEW))
			return made(length);
		counter = map_lookup(map, key);
		if (!counter)
			return lose_key(map);
	}
	__sync_fetch_and_add(counter, value);
}

/* The same, and the value before. */
static __always_inline u64 fetch_add(unsigned long map, const void *key, u64 value, u64 *length)
{
	u64 *counter = map_lookup(map, key);

	if (!counter) {
		if (!map_update(map, key, &value, UPDATE_NEW)) {
			made(length);
			return 0;
		}
		counter = map_lookup(map, key);
		if (!counter) {
			lose_key(map);
			return 0;
		}
	}
	return __sync_fetch_and_add(counter, value);
}

static __always_inline void total_add(unsigned long map, const void *key, u64 value, u64 *length)
{
	struct total *sum = map_lookup(map, key);

	if (!sum) {
		struct total first = {1, value};

		if (!map_update(map, key, &first, UPDATE_NEW))
			return made(length);
		sum = map_lookup(map, key);
		if (!sum)
			return lose_key(map);
	}
	__sync_fetch_and_add(&sum->hits, 1);
	__sync_fetch_and_add(&sum->total, value);
}

static __always_inline void raise(u64 *extreme, u64 value)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 64; i++) {
		u64 seen = *(volatile u64 *)extreme;

		if (seen >= value || __sync_val_compare_and_swap(extreme, seen, value) == seen)
			return;
	}
	lose(LOST_OUTRUN); /* in each round another program has raised the value */
}

/* min and max as one: values are encoded so that further out is larger (SIGNED_MAX and its kin). */
static __always_inline void extreme_raise(unsigned long map, const void *key, u64 value, u64 *length)
{
	u64 *extreme = map_lookup(map, key);

	if (!extreme) {
		if (!map_update(map, key, &value, UPDATE_NEW))
			return made(length);
		extreme = map_lookup(map, key);
		if (!extreme)
			return lose_key(map);
	}
	raise(extreme, value);
}

struct peak {
	u64 hits, greatest;
};

/* A counter, and the greatest value that it has counted (of SIGNED_MAX and its kin). */
static __always_inline void peak_add(unsigned long map, const void *key, u64 value, u64 *length)
{
	struct peak *peak = map_lookup(map, key);

	if (!peak) {
		struct peak first = {1, value};

		if (!map_update(map, key, &first, UPDATE_NEW))
			return made(length);
		peak = map_lookup(map, key);
		if (!peak)
			return lose_key(map);
	}
	raise(&peak->greatest, value);
	__sync_fetch_and_add(&peak->hits, 1);
}

#define TOP_BIT (1ULL << 63)
#define SIGNED_MAX(v) ((u64)(v) ^ TOP_BIT)
#define UNSIGNED_MAX(v) ((u64)(v))
#define SIGNED_MIN(v) (~SIGNED_MAX(v))
#define UNSIGNED_MIN(v) (~(u64)(v))

/* Arrays: the element is always there. */
static __always_inline void array_counter_add(unsigned long map, u32 index, u64 value)
{
	u64 *counter = map_lookup(map, &index);

	if (counter)
		__sync_fetch_and_add(counter, value);
}

static __always_inline void array_total_add(unsigned long map, u32 index, u64 value)
{
	struct total *sum = map_lookup(map, &index);

	if (sum) {
		__sync_fetch_and_add(&sum->hits, 1);
		__sync_fetch_and_add(&sum->total, value);
	}
}

struct extreme {
	u64 value, seen;
};

/* 0 is a value too, so `seen` says whether there is one: set after the value, so that nobody reads a 0 that is not a
 * value. */
static __always_inline void array_extreme_raise(unsigned long map, u32 index, u64 value)
{
	struct extreme *extreme = map_lookup(map, &index);

	if (!extreme)
		return;
	raise(&extreme->value, value);
	*(volatile u64 *)&extreme->seen = 1;
}

static __always_inline void array_peak_add(unsigned long map, u32 index, u64 value)
{
	struct peak *peak = map_lookup(map, &index);

	if (peak) {
		raise(&peak->greatest, value);
		__sync_fetch_and_add(&peak->hits, 1);
	}
}

static __always_inline void assign(unsigned long map, const void *key, const void *value, u64 *length)
{
	if (length && !map_update(map, key, value, UPDATE_NEW))
		return made(length);
	if (map_update(map, key, value, UPDATE_ANY))
		lose_key(map);
}

/* One word is stored in place where the key exists: the store cannot be torn, and it takes no new element. */
static __always_inline void assign_word(unsigned long map, const void *key, u64 value, u64 *length)
{
	u64 *word = map_lookup(map, key);

	if (word)
		*word = value;
	else
		assign(map, key, &value, length);
}

/* Whether there was one. */
static __always_inline bool remove(unsigned long map, const void *key, u64 *length)
{
	if (map_delete(map, key))
		return false;
	if (length)
		__sync_fetch_and_add(length, -1);
	return true;
}
