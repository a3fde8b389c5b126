/*
 * The frames of CPython's functions, read from the interpreter's structures at the hit, since later they are gone.
 * Their layout differs between versions, so user space provides it (struct python_image, by layouts.py). A frame
 * becomes one word: the number of its code object and the instruction. The first hit that meets a code object sends
 * its names and its table of lines with that number.
 */
#pragma once

/* Where the kernel keeps the identity of a thread (fs base, which is pthread_self() on x86-64) and of an address space.
 * fork keeps both, as it keeps all of the interpreter's memory. */
struct python_host {
	u64 thread, memory, stack, code;
	u64 number; /* of the newest code object */
};

struct python_space {
	u64 stack, code;
};

/* Offsets; `hop` is that of the frame in what the thread's `frame` points to, where `hops`. The rest makes one of all
 * versions without a branch, each of which would double the verifier's work. Whether a frame begins a native one: each
 * does (`entries` is 1: up to 3.10); a flag says so (3.11: it and the owner are two bytes); a frame of the
 * interpreter's own follows it (from 3.12 on). The instruction: an index in 32 bits (`of_code` is 0), or an address in
 * the code. */
struct python_image {
	u64 runtime, code_type;
	u32 interpreters, next_interpreter, threads, next_thread, identity;
	u32 frame, hops, hop;
	u32 previous, code, instruction, instructions, of_code, shift;
	u32 owner, owner_mask, owner_shift, entries;
	u32 name, file, first, traceable, table, mark, ascii, compact, version;
};

/* Of `enum _frameowner`: 1 is a generator's (as no other odd one below 3), and 3 or more the interpreter's own. */
#define OWNED_BY_GENERATOR 1
#define OWNED_BY_INTERPRETER 3

struct python_place {
	u64 process, stack, code;
};

/* Where a code object has its parts, and its mark: another one may come to lie at its address, and its parts at those
 * of the parts. From 3.12 on each code object has a number; before, the mark is of what its name and its table begin
 * with. */
struct python_parts {
	u64 name, file, table, first, mark;
};

struct python_seen {
	struct python_parts parts;
	u64 number;
};

#define PYTHON_NAME 256
#define PYTHON_FILE 512
#define PYTHON_TABLE 4096

struct python_code {
	u64 record, number, process, version, address;
	struct python_parts parts;
	u64 traceable, name_state, name_length, file_state, file_length, table_length;
	char name[PYTHON_NAME], file[PYTHON_FILE], table[PYTHON_TABLE];
};

/* A word of a frame: the instruction, counted from 1, 0 before the first; the number of the code; flags. No address of
 * user space. */
#define PYTHON_INSTRUCTION_MOST 0xfffffULL
#define PYTHON_NUMBER_SHIFT 20
#define PYTHON_ENTRY_BIT 60
#define PYTHON_ENTRY (1ULL << PYTHON_ENTRY_BIT)
#define PYTHON_GENERATOR_BIT 61
#define PYTHON (1ULL << 62)
/* Without a number: what ends a stack. */
#define PYTHON_WHOLE (PYTHON | 1)
#define PYTHON_UNREADABLE (PYTHON | 2)

#define PYTHON_THREADS_MOST 512

static u64 (*python_task)(void) = (void *)35;
static long (*python_kernel)(void *to, u32 size, u64 from) = (void *)113; /* zeroes where it fails */
static void *(*python_reserve)(unsigned long map, u64 size, u64 flags) = (void *)131;
static void (*python_submit)(void *record, u64 flags) = (void *)132;

/* A word at an address; 0 where it cannot be read, as the helper leaves it. */
static __always_inline u64 python_word(u64 from)
{
	u64 word;

	peek_user(&word, sizeof(word), (void *)from);
	return word;
}

/* The innermost frame of the current thread: the one whose state has the thread's identity. Until 3.11 a new thread's
 * has that of the one that makes it, and no frame, until it runs. Searched at each hit, since a state may be gone by
 * the next one. */
static __always_inline u64 python_innermost(const struct python_image *image, u64 identity)
{
	u64 interpreter = python_word(image->runtime + image->interpreters);
	u64 thread = python_word(interpreter + image->threads);

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < PYTHON_THREADS_MOST; i++) {
		if (!interpreter)
			break;
		if (!thread) {
			interpreter = python_word(interpreter + image->next_interpreter);
			thread = python_word(interpreter + image->threads);
			continue;
		}
		if (python_word(thread + image->identity) == identity) {
			u64 frame = python_word(thread + image->frame);

			if (image->hops)
				frame = python_word(frame + image->hop);
			if (frame)
				return frame;
		}
		thread = python_word(thread + image->next_thread);
	}
	return 0;
}

/* A str's state and length; its characters, as far as they have room. */
static __always_inline void python_text(const struct python_image *image, u64 text, u64 *state, u64 *length, char *to, u32 size)
{
	u64 bytes, flags;

	read_user(&bytes, sizeof(bytes), text + 16);
	flags = (u32)python_word(text + 32);
	*length = bytes;
	*state = 0;
	bytes *= flags >> 2 & 7;
	if (bytes > size)
		bytes = size;
	/* The state has a bit of its own for what was read, and one, of 64, that all is ASCII. */
	if (!read_part(to, size, text + image->compact - (flags >> 6 & 1) * (image->compact - image->ascii), bytes))
		*state = flags | 1ULL << 32;
}

#define PYTHON_MIX(mark, word) ((mark) = ((mark) ^ (word)) * 0x9e3779b97f4a7c15ULL, (mark) ^= (mark) >> 29)

static __always_inline u64 python_mark(const struct python_image *image, const struct python_parts *parts)
{
	u64 words[4], mark = 0;

	peek_user(words, 16, (void *)(parts->name + image->ascii));
	peek_user(words + 2, 16, (void *)(parts->table + 32));
	PYTHON_MIX(mark, words[0]);
	PYTHON_MIX(mark, words[1]);
	PYTHON_MIX(mark, words[2]);
	PYTHON_MIX(mark, words[3]);
	PYTHON_MIX(mark, python_word(parts->file + image->ascii));
	PYTHON_MIX(mark, python_word(parts->table + 16));
	return mark;
}

/* The number of a code object, 0 where it cannot be told. */
static __always_inline u64 python_number(const struct python_image *image, struct python_host *host, u64 stack, u64 code, u64 wakeup)
{
	struct python_place place = {current_pid_tgid() >> 32, stack, code};
	struct python_seen seen, *known;
	struct python_code *record;
	u64 length;

	seen.parts.name = python_word(code + image->name);
	seen.parts.file = python_word(code + image->file);
	seen.parts.table = python_word(code + image->table);
	seen.parts.first = (u32)python_word(code + image->first);
	if (image->mark)
		seen.parts.mark = (u32)python_word(code + image->mark);
	else
		seen.parts.mark = python_mark(image, &seen.parts);
	known = map_lookup(PYTHON_CODES, &place);
	if (known && known->parts.name == seen.parts.name && known->parts.file == seen.parts.file &&
	    known->parts.table == seen.parts.table && known->parts.first == seen.parts.first &&
	    known->parts.mark == seen.parts.mark)
		return known->number;
	if (python_word(code + 8) != image->code_type)
		return 0;
	record = python_reserve(RING, sizeof(*record), 0);
	if (!record) {
		lose(LOST_STACKS);
		return 0;
	}
	seen.number = __sync_fetch_and_add(&host->number, 1) + 1;
	record->record = PYTHON_RECORD;
	record->number = seen.number;
	record->process = process_id();
	record->version = image->version;
	record->address = code;
	record->parts = seen.parts;
	record->traceable = (u32)python_word(code + image->traceable);
	python_text(image, seen.parts.name, &record->name_state, &record->name_length, record->name, PYTHON_NAME);
	python_text(image, seen.parts.file, &record->file_state, &record->file_length, record->file, PYTHON_FILE);
	read_user(&length, sizeof(length), seen.parts.table + 16);
	if (length <= PYTHON_TABLE && read_part(record->table, PYTHON_TABLE, seen.parts.table + 32, length))
		length = -1ULL;
	record->table_length = length;
	python_submit(record, wakeup);
	map_update(PYTHON_CODES, &place, &seen, UPDATE_ANY);
	return seen.number;
}

/* Between the native frames and the words of Python's stand zeros. */
static __always_inline void clear_native(u64 *to, u32 frames)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < frames; i++)
		to[i] = 0;
}

/* Puts the words of the interpreter's frames, `frames` at most, behind the native ones, for which there is room for as
 * many. `length` is that of the latter in bytes; returns that of all. */
static __always_inline s64 walk_python(u64 *to, s64 length, u32 frames, u64 wakeup)
{
	struct python_space space = {};
	struct python_image *image;
	struct python_host *host;
	u64 task, memory = 0, identity = 0, frame, words = frames;
	u32 zero = 0;

	/* Through memory: of a length that the verifier knows, it would follow each by itself. */
	*(volatile s64 *)&to[frames] = length;
	length = *(volatile s64 *)&to[frames];
	host = map_lookup(PYTHON_HOST, &zero);
	if (!host)
		return length;
	task = python_task();
	python_kernel(&memory, sizeof(memory), task + host->memory);
	python_kernel(&space.stack, sizeof(space.stack), memory + host->stack);
	python_kernel(&space.code, sizeof(space.code), memory + host->code);
	image = map_lookup(PYTHON_IMAGES, &space);
	if (!image)
		return length;
	python_kernel(&identity, sizeof(identity), task + host->thread);
	frame = python_innermost(image, identity);
	if (!frame)
		return length;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < frames; i++) {
		u64 next, code, at, flags, number, word = PYTHON;
		u16 owner;

		words = frames + i + 1;
		if (!frame) {
			to[frames + i] = PYTHON_WHOLE;
			break;
		}
		code = python_word(frame + image->code);
		at = python_word(frame + image->instruction);
		peek_user(&owner, sizeof(owner), (void *)(frame + image->owner));
		if (peek_user(&next, sizeof(next), (void *)(frame + image->previous))) {
			to[frames + i] = PYTHON_UNREADABLE;
			break;
		}
		frame = next;
		flags = (owner & image->owner_mask) << image->owner_shift | image->entries;
		if (flags >> 8 >= OWNED_BY_INTERPRETER) {
			to[frames + i] = PYTHON | PYTHON_ENTRY;
			continue;
		}
		word |= (flags & 1) << PYTHON_ENTRY_BIT | (flags >> 8 & OWNED_BY_GENERATOR) << PYTHON_GENERATOR_BIT;
		code &= ~7ULL; /* from 3.14 on the lowest bits say who owns the reference */
		number = python_number(image, host, space.stack, code, wakeup);
		if (!number) {
			to[frames + i] = word | PYTHON_UNREADABLE;
			continue;
		}
		at = (s64)(s32)(at - image->of_code * code - image->instructions) >> image->shift;
		at++;
		if (at > PYTHON_INSTRUCTION_MOST)
			at = PYTHON_INSTRUCTION_MOST;
		to[frames + i] = word | (number & ((1ULL << 40) - 1)) << PYTHON_NUMBER_SHIFT | at;
	}
	return 8 * words;
}
