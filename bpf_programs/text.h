/* Strings in the program's own memory; prelude.h includes it. */
#pragma once

/* --- strings: buffers of words, zeros behind the text ---------------------------------------------------------- */

static __always_inline void clear_line(void *to)
{
	u64 *word = to;

	word[0] = word[1] = word[2] = word[3] = word[4] = word[5] = word[6] = word[7] = 0;
}

/* How much of a long buffer is used, from its slot: of the number itself the verifier would learn in which line of 64
 * bytes it lies, and follow all that comes after once for each. */
static __always_inline u64 in_use(const u64 *used)
{
	return *(const volatile u64 *)used;
}

/* Clears a long buffer as far as it was used; `size` is a multiple of 64. */
static __always_inline void clear_text(char *to, u32 size, const u64 *used)
{
	u64 end = in_use(used);

	clear_line(to);
#pragma clang loop unroll(disable)
	for (u32 at = 64; at < size; at += 64) {
		if (at >= end)
			break;
		clear_line(to + at);
	}
}

/* Copies a long buffer as far as it is used; as `clear_text` has it. */
static __always_inline void copy_lines(void *to, u32 size, const void *from, const u64 *used)
{
	u64 end = in_use(used);

#pragma clang loop unroll(disable)
	for (u32 at = 0; at < size; at += 64) {
		u64 *line = to + at;
		const u64 *source = from + at;

		if (at >= end)
			break;
		/* else clang may count from -64 and read 64 behind that, which the verifier refuses (seen: Linux 7.2) */
		OPAQUE(line);
		OPAQUE(source);
		for (u32 i = 0; i < 8; i++)
			line[i] = source[i];
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

#if !KERNEL_READS
/* Kernel lockdown (confidentiality) closes the helpers that copy kernel memory, even for the program's own: this copies
 * words instead. `size` is rounded up to words, which both sides have. */
static __always_inline long copy_kernel(void *to, u32 size, const void *from)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < (size + 7) / 8; i++)
		((u64 *)to)[i] = ((const u64 *)from)[i];
	return 0;
}

static __always_inline long copy_kernel_text(void *to, u32 size, const void *from)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < (size + 7) / 8; i++) {
		u64 word = ((const u64 *)from)[i], zeros = has_zero(word);

		((u64 *)to)[i] = word;
		if (zeros)
			return 8 * i + first_zero(zeros) + 1;
	}
	return size;
}
#endif

/* Two joined texts, in a buffer of zeros with room for both; how many bytes are in use. Where no helper copies
 * it goes by bytes: the verifier takes no word of BPF's stack that is not aligned. */
static __always_inline u64 join_texts(char *to, const void *left, u32 size, const char *right, u32 more)
{
	u64 at = copy_kernel_text(to, size, left) - 1;

	OPAQUE(at);
	if (at >= size)
		return 0;
	to += at;
#if KERNEL_READS
	return at + copy_kernel_text(to, more, right);
#else
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < more; i++)
		to[i] = right[i];
	return at + more;
#endif
}

/* The bytes of a text in reverse, in a buffer of zeros with as much room; the length. It is counted without a branch, as the
 * verifier would follow what comes after once for each word that the text could end in. */
static __always_inline u64 reverse_text(char *to, const void *text, u32 size)
{
	const u64 low = 0x7f7f7f7f7f7f7f7fULL, ones = 0x0101010101010101ULL;
	const u64 *from = text;
	u32 words = (size + 7) / 8;
	u64 length = 0, before = 0;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++)
		length += (((((from[i] & low) + low) | from[i]) >> 7 & ones) * ones) >> 56;
	/* Each word of the result lies across two of the text, by the bytes that its last word has. */
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++) {
		u64 at = length / 8 - i, shift = length % 8 * 8;

		OPAQUE(at);
		if (at >= words)
			break;
		((u64 *)to)[at] = __builtin_bswap64(before >> shift | from[i] << 1 << (63 - shift));
		before = from[i];
	}
	return length;
}

/* A number of `size` bytes at `offset` in a block; 0 behind `most`, the last place that has so many. By bytes: the
 * verifier takes no word of BPF's stack that is not aligned. */
static __always_inline u64 part_at(const void *block, u64 most, u32 size, u64 offset)
{
	u64 number = 0;

	OPAQUE(offset); /* the verifier loses the bound where the compiler widens an int after it */
	if (offset > most)
		return 0;
	OPAQUE(offset);
	for (u32 i = 0; i < size; i++)
		number |= (u64)((const unsigned char *)block)[offset + i] << 8 * i;
	return number;
}

/* The bytes from `offset` on in a block of `size` bytes, then zeros. */
static __always_inline void part_behind(u64 *to, u32 words, const void *block, u64 size, u64 offset)
{
	for (u32 i = 0; i < words; i++) {
		to[i] = 0;
		for (u32 j = 0; j < 8; j++) {
			u64 at = offset + 8 * i + j;

			OPAQUE(at);
			if (at >= size)
				continue;
			OPAQUE(at);
			to[i] |= (u64)((const unsigned char *)block)[at] << 8 * j;
		}
	}
}

/* Zeros behind so many bytes. */
static __always_inline void end_bytes(u64 *bytes, u32 words, u64 length)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++) {
		if (8 * i >= length)
			bytes[i] = 0;
		else if (8 * i + 8 > length)
			bytes[i] &= (1ULL << 8 * (length & 7)) - 1;
	}
}

/* The difference, as signed chars, of the first bytes that differ: of `count` that both have, and of `rest` that only
 * one has, beside zeros; of the first `most` alone. */
static __always_inline s64 compare_bytes(const void *left, const void *right, u32 count, const void *longer, u32 rest, s64 sign,
					 u64 most)
{
	u64 bound = most;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < count; i++) {
		s64 one = ((const signed char *)left)[i], other = ((const signed char *)right)[i];

		/* Of two bounds the compiler would make one and test for equality, of which the verifier of Linux 6.1 learns nothing. */
		if (!__builtin_constant_p(most))
			OPAQUE(bound);
		if (i >= bound)
			return 0;
		if (one != other)
			return one - other;
	}
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < rest; i++) {
		if (!__builtin_constant_p(most))
			OPAQUE(bound);
		if (count + i >= bound)
			break;
		if (((const signed char *)longer)[i])
			return sign * ((const signed char *)longer)[i];
	}
	return 0;
}

/* Zeros behind a text's first one. */
static __always_inline void end_text(u64 *text, u32 words)
{
	bool ended = false;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < words; i++) {
		u64 zeros = has_zero(text[i]);

		if (ended)
			text[i] = 0;
		else if (zeros)
			text[i] &= (1ULL << 8 * first_zero(zeros)) - 1;
		ended = ended || zeros;
	}
}

/* Of a text of `length` bytes, the bytes of its word number `word`: all bits of these, none of the others. */
static __always_inline u64 text_mask(s64 length, u32 word)
{
	s64 any = (s64)(8 * (u64)word - length) >> 63;
	s64 all = (s64)(8 * (u64)word + 7 - length) >> 63;

	return all | (any & ~(~0ULL << (8 * (length & 7))));
}

/* Where `needle`, a text of `length` bytes, first stands in `haystack`, or -1. There is one branch for each word of the
 * haystack and none for each place in it: the verifier follows both ways of every branch of every round. */
static __always_inline s64 find(const u64 *haystack, u32 words, const u64 *needle, u32 needle_words, s64 length)
{
	u64 found = 0, place = 0;

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
		place += 1 - found;
		if (shift == 56 && (has_zero(haystack[word]) | found))
			break;
	}
	/* The mask lets the compiler see that no place is -1: where only that is asked, places are not counted at all. */
	return found ? (s64)(place & 0xffffff) : -1;
}

/* Of a byte `glob_byte`, the bits `places` where it lies in a range, else none; without a branch. */
#define BETWEEN(low, high, places) ((places) & ~(u64)((glob_byte - (low) | (high) - glob_byte) >> 63))

/* Whether a text is as a pattern of glob(7) says. Bit n of the state: the text so far is as the first n places say. `moves` are
 * the bits of the places at which `glob_byte` may stand, `stays` those before which anything may. */
#define GLOB(text, words, moves, stays, count) ({								\
	u64 glob_state = 1;											\
	_Pragma("clang loop unroll(disable)")									\
	for (u32 glob_at = 0; glob_at < 8 * (words); glob_at++) {						\
		s64 glob_byte = ((const unsigned char *)(text))[glob_at];					\
		u64 glob_next, glob_more = -glob_byte;								\
														\
		/* What clang sees through it makes branches of, and the verifier follows both ways of each. */	\
		OPAQUE(glob_byte);										\
		OPAQUE(glob_more);										\
		glob_more >>= 63;										\
		OPAQUE(glob_more);										\
		glob_next = (glob_state << 1 & (moves)) | (glob_state & (stays));				\
		glob_state ^= (glob_state ^ glob_next) & -glob_more;						\
		OPAQUE(glob_state);										\
		if (glob_at % 8 == 7 && has_zero(((const u64 *)(text))[glob_at / 8]))				\
			break;											\
	}													\
	(bool)(glob_state >> (count) & 1);									\
})
