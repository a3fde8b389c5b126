/* What stands before prelude.h when the programs of BCC are compiled natively: types, and BPF's built-ins for a compiler
 * that has none of them. */
#include <stdbool.h>
#include <stddef.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

struct pt_regs {
#if defined(__aarch64__)
	u64 regs[31], sp, pc, pstate;
#else
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
#endif
};

/* What all programs have in common of it. */
struct control {
	u64 exiting, hit, cpid, started, wakeup;
};

#define __always_inline
#define __builtin_memset memset
#define __builtin_unreachable abort
#define __builtin_bswap64 swapped
#define __sync_fetch_and_add(place, value)                                                                                 \
	({                                                                                                                 \
		__typeof__(*(place)) was_ = *(place);                                                                      \
		*(place) += (value);                                                                                       \
		was_;                                                                                                      \
	})
#define __sync_val_compare_and_swap(place, expected, value)                                                                \
	({                                                                                                                 \
		__typeof__(*(place)) was_ = *(place);                                                                      \
		if (was_ == (expected))                                                                                    \
			*(place) = (value);                                                                                \
		was_;                                                                                                      \
	})

void *memset(void *to, int byte, size_t size);
void abort(void);

static u64 swapped(u64 word)
{
	u64 other = 0;

	for (int i = 0; i < 8; i++, word >>= 8)
		other = other << 8 | (word & 255);
	return other;
}

extern u64 shim_control[];

#ifdef SHIM
/* What Python hands over (world.py, native.py). */
struct page {
	u64 address;
	const char *bytes;
};

struct hit {
	u64 function, cookie, regs[34];
	u64 pid, tid, uid, gid, cpu, nsecs;
	char comm[16];
	s64 frames;
	u64 frame[8];
	u64 away; /* bits: pages that are not in memory before they are waited for */
};

struct table {
	u64 is_array, key_size, value_size, most;
};

struct program {
	const struct table *tables;
	u64 table_count;
	const u64 *site_words;
	u64 words_per_site;
	const u8 *shows_map; /* by the number of a record */
	u64 started, cpid;
};
#endif
