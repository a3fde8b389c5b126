/*
 * The fixed part of every generated program. It never contains text of the user.
 *
 * Maps are 64-bit constants (MAP(n)), which the loader replaces by descriptors. CONTROL is one too: the address of the
 * control block, which is the only element of its map, so that no hit looks it up (Linux 5.2).
 *
 * The generated part defines these before it includes this file, with the maps LOSSES, RING and SCRATCH, and struct
 * control. SLEEPABLE: programs may wait for a page of the traced process. COOKIES: links tell which site was hit.
 * KERNEL_READS: helpers may read the kernel's memory. NAMESPACED: tracer has process numbers of its own. NO_ATOMICS:
 * programs can only add to memory atomically. PROGRAMS: stacks tell the programs of a process apart. TASKS: the
 * kernel's task structures are read (tasks.h).
 *
 * Nothing here divides signed numbers: LLVM 14's BPF back end aborts on them.
 */
#pragma once

/* Multiples of three, so that no two differ by a power of two: LLVM would turn a choice between two maps into
 * arithmetic on their numbers, and there would be no constant left to replace. */
#define MAP(n) (0xfeedface00000000UL + 3 * (n))
#define CONTROL 0xfeedfacb00000000UL

#define UPDATE_ANY 0
#define UPDATE_NEW 1
#define USER_STACK (1 << 8)

/* Helper numbers of include/uapi/linux/bpf.h. */
static void *(*map_lookup)(unsigned long map, const void *key) = (void *)1;
static long (*map_update)(unsigned long map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(unsigned long map, const void *key) = (void *)3;
static u64 (*monotonic_ns)(void) = (void *)5;
static u32 (*random_number)(void) = (void *)7;
static u32 (*current_cpu)(void) = (void *)8;
static u64 (*current_pid_tgid)(void) = (void *)14;
static u64 (*current_uid_gid)(void) = (void *)15;
static long (*current_comm)(void *to, u32 size) = (void *)16;
static u64 (*current_cgroup)(void) = (void *)80;
static long (*signal_process)(u32 signal) = (void *)109;
static long (*signal_thread)(u32 signal) = (void *)117;
static u64 (*tick_count)(void) = (void *)118;
static long (*user_stack)(void *regs, void *to, u32 size, u64 flags) = (void *)67;
static long (*peek_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*peek_user_text)(void *to, u32 size, const void *from) = (void *)114;
#if KERNEL_READS
static long (*copy_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*copy_kernel_text)(void *to, u32 size, const void *from) = (void *)115;
#endif
static u64 (*boot_ns)(void) = (void *)125;
static long (*ring_output)(unsigned long map, const void *record, u64 size, u64 flags) = (void *)130;
static long (*walk)(unsigned long map, u64 function, void *each, u64 flags) = (void *)164;
static u64 (*attach_cookie)(void *ctx) = (void *)174;
static long (*repeat)(u32 rounds, u64 function, void *each, u64 flags) = (void *)181;
static long (*fetch_user)(void *to, u32 size, const void *from) = (void *)148;
static u64 (*current_task_object)(void) = (void *)158;
static u64 (*task_registers)(u64 task) = (void *)175;
static long (*find_mapping)(u64 task, u64 address, u64 function, void *each, u64 flags) = (void *)180;

#define BUSY 16 /* EBUSY */

/* Hides a number's known bounds from the compiler, so that a bound check stays in the code for the verifier. */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/* A number that looks like one of the constants that the loader replaces. */
#define PLAIN(high, low) ({ u64 plain_ = high; OPAQUE(plain_); plain_ << 32 | low; })

/* What `walk` calls back for each element, and `repeat` for each round: the loader puts this function behind the program, and its place here
 * (host/callbacks.py). A multiple of three, as the numbers of maps are. */
#define EACH(function, number) (0xfeedfac900000000UL + 3 * (number))
/* 0 in a round of `repeat`, of which the verifier knows nothing: it goes through one round for all values then. */
#define NOTHING ((each->round >> 32) * 0x100000001UL)
#define NOTHING_OF_ELEMENT(control) (((control)->exiting >> 32) * 0x100000001UL) /* the same for an element: `exiting` is 0 or 1 */
#define LEFT 2 /* how a round has `ended` the loop: 1 is break, this ends the clause */

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

/* How far CLOCK_TAI is ahead of the time since boot: the loader puts it in. Its helper came with Linux 6.1. */
#define TAI_AHEAD                                                                                                          \
	({                                                                                                                 \
		u64 ahead_ = 0xfeedfacf00000000UL;                                                                         \
		OPAQUE(ahead_);                                                                                            \
		ahead_;                                                                                                    \
	})

/* --- whose hit it is -------------------------------------------------------------------------------------------- */

#if NAMESPACED || TASKS || PROGRAMS || OF_KERNEL_TOO
static u64 (*current_task)(void) = (void *)35;
static long (*read_kernel)(void *to, u32 size, u64 from) = (void *)113; /* zeroes where it fails */
#endif
#define of_kernel(address) (address)

#if OF_KERNEL_TOO
static long (*read_kernel_text)(void *to, u32 size, u64 from) = (void *)115;
#endif

#if NAMESPACED || TASKS || PROGRAMS

/* Values that the loader puts into the code (pid_namespace.py): offsets in the kernel's structures, tracer's
 * namespace by inode, the process that is traced, the namespace's device, and more members. */
#define OF_KERNEL(n)                                                                                                       \
	({                                                                                                                 \
		u64 word_ = 0xfeedfaca00000000UL + 3 * (n);                                                                \
		OPAQUE(word_);                                                                                             \
		word_;                                                                                                     \
	})
#endif

#if NAMESPACED
static long (*current_in_namespace)(u64 device, u64 inode, void *to, u32 size) = (void *)120;
#define LEVELS 33 /* of pid namespaces: MAX_PID_NS_LEVEL, and the first */

/* The number of a thread in tracer's pid namespace, 0 where it has none there. A task's innermost namespace comes
 * last. */
static __always_inline u64 number_of(u64 task)
{
	u64 pid = 0;
	u32 level = 0;

	read_kernel(&pid, sizeof(pid), task + OF_KERNEL(1));
	read_kernel(&level, sizeof(level), pid + OF_KERNEL(2));
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < LEVELS; i++) {
		struct {
			u32 number, padding;
			u64 space;
		} at = {};
		u32 space = 0;

		read_kernel(&at, sizeof(at), pid + OF_KERNEL(3) + sizeof(at) * level);
		read_kernel(&space, sizeof(space), at.space + OF_KERNEL(4));
		if (space == OF_KERNEL(5))
			return at.number;
		if (!level--)
			break;
	}
	return 0;
}

/* The number of the current thread or process. The helper takes a tenth of the time, but knows only tasks whose
 * innermost namespace is tracer's. */
static __always_inline u64 number_here(bool process)
{
	u64 task;
	struct {
		u32 thread, process;
	} numbers;

	if (!current_in_namespace(OF_KERNEL(6), OF_KERNEL(5), &numbers, sizeof(numbers)))
		return process ? numbers.process : numbers.thread;
	task = current_task();
	if (process)
		read_kernel(&task, sizeof(task), task + OF_KERNEL(0));
	return number_of(task);
}

#define process_id() number_here(1)
#define thread_id() number_here(0)
#else
#define process_id() (current_pid_tgid() >> 32)
#define thread_id() ((u32)current_pid_tgid())
#endif

/* --- a hit ----------------------------------------------------------------------------------------------------- */

#ifdef FOLLOWED
#define CLONE_THREAD 0x10000
#define FOLLOWED_BLOCK 4096
#define FOLLOWED_HERE (1 << 22)
#define FOLLOWED_THREADS (2 << 22)

/* As in the tracepoint's `format`, which is checked before this is loaded. */
struct new_task {
	u64 common;
	s32 pid;
	char comm[16];
	u64 flags;
};

/* Marks the followed processes: a byte for each possible process number, some thousand to an element. Bytes, since two
 * CPUs can write neighbours at once, and no atomic "or" of bits exists before Linux 5.12. */
static __always_inline char *followed(u32 process)
{
	u32 block = process / FOLLOWED_BLOCK;
	char *bytes = map_lookup(FOLLOWED, &block);

	return bytes ? bytes + process % FOLLOWED_BLOCK : NULL;
}

/* The same for the current process. In a namespace tracer cannot mark the first ones itself, since it does not know
 * their numbers: it marks those that they have there, behind all numbers that there can be. */
static __always_inline char *current_followed(void)
{
	char *is = followed(current_pid_tgid() >> 32);
#if NAMESPACED
	if (is && !*is) {
		char *first = followed(FOLLOWED_HERE + process_id());

		if (first && *first)
			*is = 1;
	}
#endif
	return is;
}

/* The tracepoint task:task_newtask: the current task has made another one, which does not run yet. The mark of a
 * process that ends stays; a new one with that number takes over its parent's, or in a fixed set none. */
static __always_inline int note_new_task(struct new_task *task)
{
	char *child = followed(task->pid);
#if THREADS || !defined(FIXED_SET)
	char *parent = current_followed();
#endif
#if THREADS
	char *thread = followed(FOLLOWED_THREADS + task->pid);
#ifdef FIXED_SET
	char is = parent && task->flags & CLONE_THREAD ? *parent : 0;
#else
	char is = parent ? *parent : 0;
#endif

	if (thread && *thread != is)
		*thread = is;
#endif

#ifdef FIXED_SET
	if (child && !(task->flags & CLONE_THREAD) && *child)
		*child = 0;
#else
	if (parent && child && !(task->flags & CLONE_THREAD) && *child != *parent)
		*child = *parent;
#endif
	return 1; /* 0 would keep the event from everybody else who reads it */
}
#endif

/* Counts a hit of this program's attach point for the overhead guard: first of all, since a hit that the program drops
 * costs the traced program as much. Not atomic, since no answer depends on it: a program that is preempted between the
 * load and the store can lose one. The loader puts the number of the attach point into the code. */
#define HITS MAP(1002)

static __always_inline void count_hit(void)
{
	u64 number = 0xfeedfacc00000000UL;
	u32 point;
	u64 *hits;

	OPAQUE(number);
	point = number;
	hits = map_lookup(HITS, &point);
	if (hits)
		++*hits;
}

/* The control block; NULL after exit(). */
static __always_inline struct control *control_block(void)
{
	struct control *control = (struct control *)CONTROL;

	OPAQUE(control); /* the loader searches for this very constant: the compiler must not add a member's offset to it */
	if (!control)
		__builtin_unreachable();
	if (control->exiting)
		return NULL;
#ifdef FOLLOWED
	if (!control->hit)
		control->hit = 1; /* so that silence can be explained; written once, since all CPUs share this line */
#endif
	return control;
}

/* Whether the process is one that is traced. A hit of another costs that one, and is not counted. */
static __always_inline int is_traced(void)
{
#ifdef FOLLOWED
	char *is = current_followed();

	return is && *is;
#else
	return 1;
#endif
}

#if THREADS
/* Whether a thread is one of those that are traced. */
static __always_inline int thread_is_traced(u32 thread)
{
	char *is = followed(FOLLOWED_THREADS + thread);

	return is && *is;
}
#elif !defined(FOLLOWED)
#define thread_is_traced(thread) 1
#endif

/* The control block; NULL after exit(): for a program that asks itself whose the hit is. */
static __always_inline struct control *enter_for_all(void)
{
	count_hit();
	return control_block();
}

/* The control block; NULL after exit(), or if the process is not followed. Uncounted: for a program whose map counts
 * every hit itself. */
static __always_inline struct control *enter_uncounted(void)
{
	return is_traced() ? control_block() : NULL;
}

static __always_inline struct control *enter(void)
{
	if (!is_traced())
		return NULL;
	count_hit();
	return control_block();
}

/* Marks the site as hit, to find the sites of a wildcard that never were: its number is the upper half of the link's
 * cookie. Written once, since all CPUs share these lines. */
#if COOKIES
#define NOTE_SITE(control, ctx)                                                                                                \
	do {                                                                                                                   \
		u64 site_ = attach_cookie(ctx) >> 32;                                                                          \
		OPAQUE(site_);                                                                                                 \
		if (site_ < sizeof((control)->noted) && !(control)->noted[site_])                                              \
			(control)->noted[site_] = 1;                                                                           \
	} while (0)
#else
#define NOTE_SITE(control, ctx)
#endif

/* --- the texts of probe and func ------------------------------------------------------------------------------- */

#ifdef SITE_TEXTS
#if COOKIES
/* The texts of the site that was hit, by its link's cookie. */
static __always_inline const u64 *site_texts(void *ctx)
{
	u32 number = attach_cookie(ctx);

	return map_lookup(SITE_TEXTS, &number);
}

#define SITE_WORD(n) (site[n])
#elif BY_PLACE
#define SITE_PLACES MAP(1003)

/* The texts of the site that was hit, by the place in its page. The loader puts the number of the program's page of
 * such places into the code. */
static __always_inline const u64 *site_texts(struct pt_regs *ctx)
{
	u64 number = 0xfeedfacd00000000UL;
	u32 page, text;
	const u32 *texts;

	OPAQUE(number);
	page = number;
	texts = map_lookup(SITE_PLACES, &page);
	if (!texts)
		return NULL;
#if defined(__aarch64__)
	text = texts[ctx->pc & 4095];
#else
	text = texts[ctx->ip & 4095];
#endif
	return map_lookup(SITE_TEXTS, &text);
}

#define SITE_WORD(n) (site[n])
#else
/* The loader puts the words into the code: the compiler must not compute with the constants that stand for them. */
#define site_texts(ctx) ((const u64 *)(ctx))
#define SITE_WORD(n) ({ u64 word = 0xfeedfacd00000000UL + 3 * (n); OPAQUE(word); word; })
#endif
#endif

/* --- losses ---------------------------------------------------------------------------------------------------- */

enum {
	LOST_EVENTS, LOST_UNREADABLE, LOST_TRUNCATED, LOST_KEYS, LOST_LOOPS, LOST_STACKS, LOST_BUSY, LOST_OUTRUN,
	LOST_DIVISIONS, LOSS_CAUSES
};

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

#if SLEEPABLE
/* Brings a page into memory by touching a byte of it: 0, or negative. -BUSY while somebody changes the process's mappings.
 * A page may be one that never comes: of userfaultfd memory or of a file that another process or machine serves. Waiting
 * for it would hold up all who trace. So the mapping is asked first (host/mappings.py); no other page is waited for. */
static __always_inline long bring_page(u64 address)
{
	u64 comes = 0;
	long error = find_mapping(current_task_object(), address, EACH(0, 901), &comes, 0);
	char byte;

	if (error == -BUSY)
		return -BUSY;
	return comes ? fetch_user(&byte, 1, (void *)address) : -1;
}

/* Reads again until it is done, after bringing in each page in turn: at most `most` bytes lie on so many, and mappings may
 * change meanwhile. */
#ifdef __clang__
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define ROLLED
#endif
#define READ_AGAIN(done, read, from, most) \
	do { \
		u64 page = from; \
		ROLLED \
		for (u32 i = 0; i < (most) / 4096 + 2 + 4; i++) { \
			long error; \
\
			if (done) \
				break; \
			error = bring_page(page); \
			if (error == -BUSY) \
				continue; \
			if (error) \
				break; \
			page = (page | 4095) + 1; \
			read; \
		} \
	} while (0)
#else
#define READ_AGAIN(done, read, from, most) ((void)(most))
#endif

/* 0, or negative if it cannot be read. The read itself never waits: it fails on a page that is not in memory, which is
 * then brought in. `most` is a constant that `size` does not exceed. */
static __always_inline long touch_user(void *to, u32 size, u64 from, u32 most)
{
	long failed;

#if OF_KERNEL_TOO
	/* Only for programs that ask for what is the kernel's: to others a traced program could give an address there. */
	if (from >> 63)
		return read_kernel(to, size, from);
#endif
	failed = peek_user(to, size, (void *)from);
	READ_AGAIN(!failed, failed = peek_user(to, size, (void *)from), from, most);
	return failed;
}

static __always_inline long read_user(void *to, u32 size, u64 from)
{
	return touch_user(to, size, from, size);
}

/* The first `length` of `size` bytes. */
static __always_inline long read_part(void *to, u32 size, u64 from, u64 length)
{
	u64 last = length - 1;

	if (!length)
		return 0;
	OPAQUE(last);
	if (last > size - 1)
		return -1;
	OPAQUE(last);
	if (last > size - 1)
		return -1;
	return touch_user(to, last + 1, from, size);
}

/* Whether a length is an error number. BPF has no `if r < 0`, and of `if 0 > r` the verifier of Linux 6.1 follows both
 * ways even where it knows r to be negative, as behind a loop that ends when it is not: the one that cannot be then has
 * bounds that contradict each other, and the program is refused. */
static __always_inline bool failed(s64 length)
{
	s64 sign = length >> 63;

	OPAQUE(sign);
	return sign;
}

/* A string with its NUL, at most `size` bytes: how many, or negative where it cannot be read. Touching one byte of each
 * page that the string may lie on brings the page in; no byte behind the NUL is needed for that. `most` is a constant
 * that `size` stays below. */
static __always_inline long touch_user_text(void *to, u64 size, u64 from, u32 most)
{
	long length;

#if OF_KERNEL_TOO
	if (from >> 63)
		return read_kernel_text(to, size, from);
#endif
	length = peek_user_text(to, size, (void *)from);
	READ_AGAIN(length >= 0, length = peek_user_text(to, size, (void *)from), from, most);
	return length;
}

static __always_inline long read_user_text(void *to, u32 size, u64 from)
{
	return from ? touch_user_text(to, size, from, size) : 0; /* str(0) is "" */
}

/* The same for a string of which the program wants `length` bytes, the NUL counted. Only the length - 1 bytes that it
 * shows are read, since memory after them need not be mapped, and there need be no NUL. The limit is `size`. */
static __always_inline long read_sized_text(void *to, u32 size, u64 from, u64 length)
{
	u64 last = length - 2, shown, differs;
	long got;

	if (length > size)
		return read_user_text(to, size, from);
	if (!from || length < 2)
		return 0;
	OPAQUE(last); /* so that the verifier, too, learns the bound from the test, for all values computed from it */
	if (last > size - 2)
		return 0;
	OPAQUE(last);
	got = peek_user_text(to, last + 2, (void *)from);
	if (!failed(got))
		return got;
	shown = last + 1;
	got = touch_user_text(to, shown, from, size);
	/* Of `got != shown` the verifier of Linux 6.1 learns bounds of `shown` from a negative `got` too, which cannot be
	 * equal, and refuses the read of so many bytes ("R2 min value is negative"). */
	differs = got ^ shown;
	OPAQUE(differs);
	if (differs)
		return got;
	/* The helper has put a NUL in place of the last byte. Where a helper fails it leaves nothing but zeros. */
	if (touch_user(to, shown, from, size))
		return -1;
	return ((volatile char *)to)[last] ? shown + 1 : shown;
}

/* Counts a string that did not fit its buffer, unless it was `told` at this hit; returns whether it is now. One that
 * fills the buffer may have been cut, or just have fitted. */
static __always_inline u64 check_cut(long length, u32 size, u64 from, u64 told)
{
	char last = 1;

	if (length < size || told)
		return told;
	read_user(&last, 1, from + size - 1);
	if (last)
		lose(LOST_TRUNCATED);
	return 1;
}

#include "text.h"
#include "held.h"
#include "maps.h"

/* --- scratch memory -------------------------------------------------------------------------------------------- */

#ifdef SCRATCH_SLOTS
/* Memory beyond the 512 bytes of BPF's stack. A sleepable or preempted program is interleaved with others on its CPU,
 * so a slot belongs to one invocation, not to a CPU: `busy` is taken by compare-and-swap. A CPU starts its search at
 * its own slots, which stay in its cache. Strings in a slot keep their `used` lengths, so that only those bytes are
 * cleared.  Where programs cannot compare and swap (before Linux 5.12) none sleeps, and none is preempted or
 * interleaved: trace_call_bpf forbids it (uprobes go without it since Linux 6.0, 8c7dcb84e3b7). There a slot does
 * belong to a CPU. */
static __always_inline void *scratch_take(void)
{
#if NO_ATOMICS
	u32 slot = current_cpu();

	return map_lookup(SCRATCH, &slot);
#else
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
#endif
}

static __always_inline void scratch_give(void *slot)
{
#if !NO_ATOMICS
	/* Not a plain store: the writes to the slot must be visible before it is free. */
	__sync_val_compare_and_swap((u64 *)slot, 1, 0);
#endif
}
#endif

/* --- records --------------------------------------------------------------------------------------------------- */

/* The place after the bytes that a helper has written to a record: `length` as it said, `size` at most (65536). The
 * mask changes nothing, but tells the verifier that the length is not negative, which it does not infer from
 * `failed`. */
#define ADVANCE(at, length, size)                                                                                          \
	do {                                                                                                               \
		u64 length_ = length;                                                                                      \
		OPAQUE(length_);                                                                                           \
		length_ &= 0x1ffff;                                                                                        \
		if (length_ > (size))                                                                                      \
			length_ = (size);                                                                                  \
		OPAQUE(at); /* or adding to what is known of it may become an `or`, which the verifier bounds too widely */   \
		at += length_;                                                                                             \
	} while (0)

/* The same number, of which the verifier knows no more than that it is `most` at most; through `word`, in a map. */
#define FORGET(number, most, word)                                                                                         \
	do {                                                                                                               \
		*(volatile u64 *)&(word) = number;                                                                         \
		number = *(volatile u64 *)&(word);                                                                         \
		if (number > (most))                                                                                       \
			number = (most);                                                                                   \
	} while (0)

/* All take `wakeup` of the control block: BPF_RB_NO_WAKEUP while the reader is awake and looks by itself, and
 * BPF_RB_FORCE_WAKEUP while it sleeps. */
static __always_inline void emit(const void *record, u64 size, u64 wakeup)
{
	if (ring_output(RING, record, size, wakeup))
		lose(LOST_EVENTS);
}

/* --- clear and zero: what carries an older mark is of the past
 * ------------------------------------------------------ */

#define CLEARED 1
#define ZEROED (1ULL << 32)

static __always_inline u64 raise_mark(u64 *mark, u64 by)
{
	return __sync_fetch_and_add(mark, by);
}

/* If the ring is full, a later clear's record will do: it only says which room can be freed. */
static __always_inline void emit_raised(u64 number, u64 before, u64 wakeup)
{
	u64 record[2] = {number, before};

	ring_output(RING, record, sizeof(record), wakeup);
}

/* print(@x) just before a clear: it cannot be shown later, so it is lost if the ring is full. */
static __always_inline void emit_ended(u64 number, u64 before, u64 wakeup)
{
	u64 record[2] = {number, before};

	emit(record, sizeof(record), wakeup);
}

/* print(@x) of a map that probes clear somewhere: as it is at this mark. */
static __always_inline void emit_moment(u64 number, u64 mark, u64 *pending, u64 wakeup)
{
	u64 record[2] = {number, mark};

	if (ring_output(RING, record, sizeof(record), wakeup))
		__sync_fetch_and_add(pending, 1);
}

/* An event that must not be lost: where the ring is full, user space finds it in `pending`. */
static __always_inline void emit_control(u64 number, u64 *pending, u64 wakeup)
{
	if (ring_output(RING, &number, sizeof(number), wakeup))
		__sync_fetch_and_add(pending, 1);
}
