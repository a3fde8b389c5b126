/*
 * Reading what the hit itself holds: an event's record, which is the kernel's memory.
 */
#pragma once

static long (*peek_held)(void *to, u32 size, const void *from) = (void *)113;
static long (*peek_held_text)(void *to, u32 size, const void *from) = (void *)115;

static __always_inline long read_held(void *to, u32 size, u64 from)
{
	return peek_held(to, size, (const void *)from);
}

/* A string with its NUL, at most `size` bytes: how many, or negative where it cannot be read. */
static __always_inline long read_held_text(void *to, u32 size, u64 from)
{
	return peek_held_text(to, size, (const void *)from);
}

/* The same for a string of which the program wants `length` bytes, the NUL counted. */
static __always_inline long read_held_sized(void *to, u32 size, u64 from, u64 length)
{
	u64 last = length - 2;

	if (length > size)
		return read_held_text(to, size, from);
	if (length < 2)
		return 0;
	OPAQUE(last);
	if (last > size - 2)
		return 0;
	OPAQUE(last);
	return peek_held_text(to, last + 2, (const void *)from);
}

/* As `check_cut`. */
static __always_inline u64 check_held(long length, u32 size, u64 from, u64 told)
{
	char last = 1;

	if (length < size || told)
		return told;
	read_held(&last, 1, from + size - 1);
	if (last)
		lose(LOST_TRUNCATED);
	return 1;
}

/* Perf's number for the mode of the program that is in the kernel: 1 of 32 bits, else 2. */
static __always_inline u64 program_abi(void)
{
#ifdef __x86_64__
	struct pt_regs *ctx = (struct pt_regs *)task_registers(current_task_object());

	if (REGISTER(cs) == 0x23)
		return 1;
#endif
	return 2;
}
