/*
 * What every generated program is made of. No text of a user ever stands here.
 *
 * Maps are 64-bit constants (MAP(n)); the loader puts the descriptors in their place. SLEEPABLE says whether programs may
 * wait for a page of the traced process, COOKIES whether links tell which site was hit; the generated part defines it, the maps CONTROL, LOSSES, RING and SCRATCH, and
 * struct control, before it includes this.
 *
 * Nothing here divides signed numbers: LLVM 14's BPF back end aborts on them.
 */
#pragma once

/* Multiples of three, so that no two differ by a power of two: LLVM would turn a choice between two maps into arithmetic
 * on their numbers, and there would be no constant left to replace. */
#define MAP(n) (0xfeedface00000000UL + 3 * (n))

#define UPDATE_ANY 0
#define UPDATE_NEW 1
#define NO_WAKEUP 1
#define USER_STACK (1 << 8)

/* Helper numbers of include/uapi/linux/bpf.h. */
static void *(*map_lookup)(unsigned long map, const void *key) = (void *)1;
static long (*map_update)(unsigned long map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(unsigned long map, const void *key) = (void *)3;
static u32 (*current_cpu)(void) = (void *)8;
static u64 (*current_pid_tgid)(void) = (void *)14;
static u64 (*current_uid_gid)(void) = (void *)15;
static long (*current_comm)(void *to, u32 size) = (void *)16;
static long (*user_stack)(void *regs, void *to, u32 size, u64 flags) = (void *)67;
static long (*peek_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*copy_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*peek_user_text)(void *to, u32 size, const void *from) = (void *)114;
static long (*copy_kernel_text)(void *to, u32 size, const void *from) = (void *)115;
static u64 (*boot_ns)(void) = (void *)125;
static long (*ring_output)(unsigned long map, const void *record, u64 size, u64 flags) = (void *)130;
static u64 (*attach_cookie)(void *ctx) = (void *)174;
static long (*fetch_user)(void *to, u32 size, const void *from) = (void *)148;

/* Hides from the compiler what it knows of a number, so that a bound check stays in the code for the verifier. */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/* A register at the hit. The compiler must not see the load: out of a choice between two registers it would make a load
 * through a choice between two addresses in ctx, and the verifier allows none but fixed ones. */
#define REGISTER(member)                                                                                                   \
	({                                                                                                                 \
		u64 value_;                                                                                                \
		asm("%0 = *(u64 *)(%1 + %2)"                                                                               \
		    : "=r"(value_)                                                                                         \
		    : "r"(ctx), "i"(__builtin_offsetof(struct pt_regs, member)));                                          \
		value_;                                                                                                    \
	})

/* --- a hit ----------------------------------------------------------------------------------------------------- */

/* The control block, or NULL where the program has said exit(). */
static __always_inline struct control *enter(void)
{
	u32 zero = 0;
	struct control *control = map_lookup(CONTROL, &zero);

	if (!control || control->exiting)
		return NULL;
	if (!control->hit)
		control->hit = 1; /* so that silence can be explained; written once, since all CPUs share this line */
	return control;
}

/* --- the texts of probe and func ------------------------------------------------------------------------------- */

#ifdef SITE_TEXTS
#if COOKIES
/* The texts of the site that was hit, by the number that came with its link. */
static __always_inline const u64 *site_texts(void *ctx)
{
	u32 number = attach_cookie(ctx);

	return map_lookup(SITE_TEXTS, &number);
}

#define SITE_WORD(n) (site[n])
#else
/* The loader puts the words into the code: the compiler must not compute with what stands for them. */
#define site_texts(ctx) ((const u64 *)(ctx))
#define SITE_WORD(n) ({ u64 word = 0xfeedfacd00000000UL + 3 * (n); OPAQUE(word); word; })
#endif
#endif

/* --- losses ---------------------------------------------------------------------------------------------------- */

enum { LOST_EVENTS, LOST_UNREADABLE, LOST_TRUNCATED, LOST_KEYS, LOST_LOOPS, LOST_STACKS };

static __always_inline void lose(u32 cause)
{
	u64 *count = map_lookup(LOSSES, &cause);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* --- arithmetic ------------------------------------------------------------------------------------------------ */

static __always_inline u64 divide(u64 a, u64 b)
{
	return b ? a / b : 0;
}

static __always_inline u64 remainder(u64 a, u64 b)
{
	return b ? a % b : a;
}

static __always_inline s64 divide_signed(s64 a, s64 b)
{
	u64 quotient = divide(a < 0 ? -(u64)a : a, b < 0 ? -(u64)b : b);

	return (a ^ b) < 0 ? -quotient : quotient;
}

static __always_inline s64 remainder_signed(s64 a, s64 b)
{
	u64 rest = remainder(a < 0 ? -(u64)a : a, b < 0 ? -(u64)b : b);

	return a < 0 ? -rest : rest;
}

/* --- memory of the traced process ------------------------------------------------------------------------------ */

/* 0, or negative where it cannot be read. The quick read fails on a page that is not in memory; then we wait for it. */
static __always_inline long read_user(void *to, u32 size, u64 from)
{
	long failed = peek_user(to, size, (void *)from);

#if SLEEPABLE
	if (failed)
		failed = fetch_user(to, size, (void *)from);
#endif
	return failed;
}

/* A string with its NUL, at most `size` bytes: how many, or negative where it cannot be read. Touching one byte of each
 * page that the string may lie on brings the page in; no byte behind the NUL is needed for that. */
static __always_inline long read_user_text(void *to, u32 size, u64 from)
{
	long length;

	if (!from)
		return 0; /* str(0) is "" */
	length = peek_user_text(to, size, (void *)from);
#if SLEEPABLE
	u64 page = from;
	char byte;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < size / 4096 + 2; i++) {
		if (length >= 0)
			break;
		if (fetch_user(&byte, 1, (void *)page))
			break;
		page = (page | 4095) + 1;
		length = peek_user_text(to, size, (void *)from);
	}
#endif
	return length;
}

/* A string that filled its buffer: was it cut, or did it just fit? */
static __always_inline void check_cut(long length, u32 size, u64 from)
{
	char last = 1;

	if (length < size)
		return;
	read_user(&last, 1, from + size - 1);
	if (last)
		lose(LOST_TRUNCATED);
}

/* --- strings: buffers of words, zeros behind the text ---------------------------------------------------------- */

static __always_inline void clear_line(void *to)
{
	u64 *word = to;

	word[0] = word[1] = word[2] = word[3] = word[4] = word[5] = word[6] = word[7] = 0;
}

/* Clears a long buffer as far as it was used; `size` is a multiple of 64. */
static __always_inline void clear_text(char *to, u32 size, u64 used)
{
	clear_line(to);
#pragma clang loop unroll(disable)
	for (u32 at = 64; at < size; at += 64) {
		if (at >= used)
			break;
		clear_line(to + at);
	}
}

static __always_inline void zero_words(u64 *to, u32 words)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++)
		to[i] = 0;
}

static __always_inline u64 has_zero(u64 word)
{
	return (word - 0x0101010101010101ULL) & ~word & 0x8080808080808080ULL;
}

static __always_inline bool same_text(const u64 *a, const u64 *b, u32 words)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++) {
		u64 word = a[i];

		if (word != b[i])
			return false;
		if (has_zero(word))
			break;
	}
	return true;
}

static __always_inline bool same_words(const u64 *a, const u64 *b, u32 words)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/* strncmp over whole words, and `rest` bytes of the one behind them. */
static __always_inline bool same_start(const u64 *a, const u64 *b, u32 words, u32 rest)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++) {
		u64 word = a[i];

		if (word != b[i])
			return false;
		if (has_zero(word))
			return true;
	}
	if (!rest)
		return true;
	for (u32 i = 0; i < rest; i++) {
		char byte = ((const char *)(a + words))[i];

		if (byte != ((const char *)(b + words))[i])
			return false;
		if (!byte)
			break;
	}
	return true;
}

/* Which byte of a word is its first 0: the bytes below it are counted by the bits that subtracting 1 sets in each. */
static __always_inline u64 first_zero(u64 zeros)
{
	return (((((zeros & -zeros) - 1) & 0x0101010101010101ULL) * 0x0101010101010101ULL) >> 56) - 1;
}

static __always_inline u64 text_length(const u64 *text, u32 words)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++) {
		u64 zeros = has_zero(text[i]);

		if (zeros)
			return 8 * i + first_zero(zeros);
	}
	return 8 * words;
}

/* Of a text of `length` bytes, the bytes of its word number `word`: all bits of these, none of the others. */
static __always_inline u64 text_mask(s64 length, u32 word)
{
	s64 any = (s64)(8 * (u64)word - length) >> 63;
	s64 all = (s64)(8 * (u64)word + 7 - length) >> 63;

	return all | (any & ~(~0ULL << (8 * (length & 7))));
}

/* Whether `needle`, a text of `length` bytes, stands in `haystack`. There is one branch for each word of the haystack and
 * none for each place in it: the verifier follows both ways of every branch of every round. */
static __always_inline bool contains(const u64 *haystack, u32 words, const u64 *needle, u32 needle_words, s64 length)
{
	u64 found = 0;

#pragma clang loop unroll(disable)
	for (u32 at = 0; at < 8 * words; at++) {
		u32 word = at / 8, shift = at % 8 * 8;
		u64 differ = 0;

#pragma clang loop unroll(disable)
		for (u32 i = 0; i < needle_words; i++) {
			u64 low = 0, high = 0;

			if (word + i < words)
				low = haystack[word + i];
			if (word + i + 1 < words)
				high = haystack[word + i + 1];
			differ |= ((low >> shift | high << 1 << (63 - shift)) ^ needle[i]) & text_mask(length, i);
		}
		OPAQUE(differ);
		found |= ~(differ | -differ) >> 63;
		if (shift == 56 && (has_zero(haystack[word]) | found))
			break;
	}
	return found;
}

/* --- histograms ------------------------------------------------------------------------------------------------ */

/* As results/buckets.py: bucket 0 for negatives, one for each value below 2^bits, 2^bits for each power of two above. */
static __always_inline u32 log2_bucket(u64 value, u32 bits)
{
	u32 exponent = 0;
	u64 rest = value;

	if (value >> 63)
		return 0;
	if (rest >> 32) { exponent += 32; rest >>= 32; }
	if (rest >> 16) { exponent += 16; rest >>= 16; }
	if (rest >> 8) { exponent += 8; rest >>= 8; }
	if (rest >> 4) { exponent += 4; rest >>= 4; }
	if (rest >> 2) { exponent += 2; rest >>= 2; }
	if (rest >> 1) exponent += 1;
	if (exponent < bits || !value)
		return value + 1;
	return 1 + ((exponent - bits) << bits) + (value >> (exponent - bits));
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

/* Whether a look-up found something. The compiler must not see that this is a test of a pointer: joined with another test
 * it would become arithmetic on the pointer, which the verifier refuses. */
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

/* An element that may not be there yet. Another CPU, or another task on this one, may make it first: then ours is not
 * taken, and we add to theirs. */
static __always_inline void counter_add(unsigned long map, const void *key, u64 value, u64 *length)
{
	u64 *counter = map_lookup(map, key);

	if (!counter) {
		if (!map_update(map, key, &value, UPDATE_NEW))
			return made(length);
		counter = map_lookup(map, key);
		if (!counter)
			return lose(LOST_KEYS);
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
			lose(LOST_KEYS);
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
			return lose(LOST_KEYS);
	}
	__sync_fetch_and_add(&sum->hits, 1);
	__sync_fetch_and_add(&sum->total, value);
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
			return lose(LOST_KEYS);
	}
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 64; i++) {
		u64 seen = *(volatile u64 *)extreme;

		if (seen >= value || __sync_val_compare_and_swap(extreme, seen, value) == seen)
			return;
	}
	lose(LOST_EVENTS); /* each round it was another value that went further: nobody has seen it happen */
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

static __always_inline void array_total_add(unsigned long map, u64 value)
{
	u32 index = 0;
	struct total *sum = map_lookup(map, &index);

	if (sum) {
		__sync_fetch_and_add(&sum->hits, 1);
		__sync_fetch_and_add(&sum->total, value);
	}
}

static __always_inline void assign(unsigned long map, const void *key, const void *value, u64 *length)
{
	if (length && !map_update(map, key, value, UPDATE_NEW))
		return made(length);
	if (map_update(map, key, value, UPDATE_ANY))
		lose(LOST_KEYS);
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

static __always_inline void remove(unsigned long map, const void *key, u64 *length)
{
	if (!map_delete(map, key) && length)
		__sync_fetch_and_add(length, -1);
}

/* --- scratch memory -------------------------------------------------------------------------------------------- */

#ifdef SCRATCH_SLOTS
/* What does not fit the 512 bytes of BPF's stack. A sleepable or preempted program is interleaved with others on its CPU,
 * so a slot belongs to one invocation, not to a CPU: `busy` is taken by compare-and-swap. A CPU starts its search at
 * its own slots, which stay in its cache. Strings in a slot keep their `used` lengths, so that only those bytes are cleared.
 */
static __always_inline void *scratch_take(void)
{
	u32 start = current_cpu() * 8;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SCRATCH_SLOTS; i++) {
		u32 slot = (start + i) & (SCRATCH_SLOTS - 1);
		u64 *busy = map_lookup(SCRATCH, &slot);

		if (!busy)
			break;
		if (!*busy && !__sync_val_compare_and_swap(busy, 0, 1))
			return busy;
	}
	return NULL;
}

static __always_inline void scratch_give(void *slot)
{
	/* Not a plain store: what was written to the slot must be seen before it is free. */
	__sync_val_compare_and_swap((u64 *)slot, 1, 0);
}
#endif

/* --- records --------------------------------------------------------------------------------------------------- */

/* Behind what a helper has written to a record: `length` as it said, `size` at most. */
#define ADVANCE(at, length, size)                                                                                          \
	do {                                                                                                               \
		u64 length_ = length;                                                                                      \
		OPAQUE(length_);                                                                                           \
		if (length_ > (size))                                                                                      \
			length_ = (size);                                                                                  \
		OPAQUE(at); /* or adding to what is known of it may become an `or`, which the verifier bounds too widely */   \
		at += length_;                                                                                             \
	} while (0)

static __always_inline void emit(const void *record, u64 size)
{
	if (ring_output(RING, record, size, NO_WAKEUP))
		lose(LOST_EVENTS);
}

/* --- clear and zero: what carries an older mark is of the past ------------------------------------------------------ */

#define CLEARED 1
#define ZEROED (1ULL << 32)

static __always_inline u64 raise_mark(u64 *mark, u64 by)
{
	return __sync_fetch_and_add(mark, by);
}

/* Where the ring is full, a later clear's record will do: it only says what room can be given back. */
static __always_inline void emit_raised(u64 number, u64 before)
{
	u64 record[2] = {number, before};

	ring_output(RING, record, sizeof(record), NO_WAKEUP);
}

/* print(@x) of what a clear has just ended: nobody could show it later, so it is lost where the ring is full. */
static __always_inline void emit_ended(u64 number, u64 before)
{
	u64 record[2] = {number, before};

	emit(record, sizeof(record));
}

/* print(@x) of a map that probes clear somewhere: as it is at this mark. */
static __always_inline void emit_moment(u64 number, u64 mark, u64 *pending)
{
	u64 record[2] = {number, mark};

	if (ring_output(RING, record, sizeof(record), NO_WAKEUP))
		__sync_fetch_and_add(pending, 1);
}

/* An event that must not be lost: where the ring is full, user space finds it in `pending`. */
static __always_inline void emit_control(u64 number, u64 *pending)
{
	if (ring_output(RING, &number, sizeof(number), NO_WAKEUP))
		__sync_fetch_and_add(pending, 1);
}
