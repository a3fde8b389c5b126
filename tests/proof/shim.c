/* The kernel's side of BCC's programs, in user space: helpers, maps, the ring, and the memory of a process that is hit.
 * Python hands over a program and its hits, and reads back what the programs wrote (world.py, native.py). */
#define SHIM
#include "shim.h"
#include <string.h>

#define EFAULT 14
#define MAP_BASE 0xfeedface00000000UL
#define PAGE 4096
enum { LOSSES = 1, RING, SCRATCH, FIRST_TABLE, SITE_TEXTS = 1000 };
enum { OUT_RECORD = 1, OUT_MAPS, OUT_END };
enum { MOST_TABLES = 64, MOST_ELEMENTS = 8192, LOSS_COUNT = 9, FULL_MAPS = 32, CONTROL_WORDS = 128 };

struct element {
	struct element *next;
	u64 table;
	char *key, *value;
};

u64 shim_control[CONTROL_WORDS];

static const struct page *pages;
static u64 page_count, away;
static const struct hit *hit;
static const struct program *program;
static struct element elements[MOST_ELEMENTS], *of_table[MOST_TABLES];
static u64 element_count, table_sizes[MOST_TABLES];
static char arena[1 << 22];
static u64 arena_used, losses[LOSS_COUNT], full[FIRST_TABLE + MOST_TABLES];
static u64 *out, *out_end;
static union {
	u64 busy;
	char bytes[1 << 20];
} scratch;

/* --- memory ---------------------------------------------------------------------------------------------------- */

static const char *at(u64 address, bool wait)
{
	for (u64 i = 0; i < page_count; i++) {
		if (pages[i].address != (address & -(u64)PAGE))
			continue;
		if (wait)
			away &= ~(1ULL << i);
		return away >> i & 1 ? NULL : pages[i].bytes + address % PAGE;
	}
	return NULL;
}

static long copy(char *to, u32 size, u64 from, bool wait)
{
	for (u32 i = 0; i < size; i++) {
		const char *byte = at(from + i, wait);

		if (!byte) {
			memset(to, 0, size);
			return -EFAULT;
		}
		to[i] = *byte;
	}
	return 0;
}

long peek_user(void *to, u32 size, const void *from) { return copy(to, size, (u64)from, 0); }
long fetch_user(void *to, u32 size, const void *from) { return copy(to, size, (u64)from, 1); }
u64 current_task_object(void) { return 0; }

/* All memory here is such as may be waited for. */
long find_mapping(u64 task, u64 address, u64 function, void *each, u64 flags)
{
	*(u64 *)each = 1;
	return 0;
}

/* strncpy_from_user_nofault(): bytes behind the NUL stay as they are. */
long peek_user_text(void *to, u32 size, const void *from)
{
	char *text = to;

	for (u32 i = 0; i < size; i++) {
		const char *byte = at((u64)from + i, 0);

		if (!byte) {
			memset(to, 0, size);
			return -EFAULT;
		}
		text[i] = *byte;
		if (!*byte)
			return i + 1;
	}
	if (size)
		text[size - 1] = 0;
	return size;
}

long copy_kernel(void *to, u32 size, const void *from) { return memcpy(to, from, size), 0; }

long copy_kernel_text(void *to, u32 size, const void *from)
{
	u32 i;

	for (i = 0; i < size && ((const char *)from)[i]; i++)
		((char *)to)[i] = ((const char *)from)[i];
	((char *)to)[i < size ? i : size - 1] = 0;
	return i < size ? i + 1 : size;
}

/* --- the hit --------------------------------------------------------------------------------------------------- */

u32 current_cpu(void) { return hit->cpu; }
u64 current_pid_tgid(void) { return hit->pid << 32 | hit->tid; }
u64 current_uid_gid(void) { return hit->gid << 32 | hit->uid; }
u64 boot_ns(void) { return hit->nsecs; }
u64 attach_cookie(void *ctx) { return hit->cookie; }

long current_comm(void *to, u32 size)
{
	memcpy(to, hit->comm, size);
	return 0;
}

long user_stack(void *regs, void *to, u32 size, u64 flags)
{
	s64 bytes = 8 * hit->frames < size ? 8 * hit->frames : size;

	memset(to, 0, size);
	if (hit->frames > 0)
		memcpy(to, hit->frame, bytes);
	return hit->frames > 0 ? bytes : -EFAULT;
}

/* --- maps ------------------------------------------------------------------------------------------------------ */

static char *room(u64 size)
{
	char *found = arena + arena_used;

	arena_used += (size + 7) & -8ULL;
	if (arena_used > sizeof(arena))
		abort();
	memset(found, 0, size);
	return found;
}

static struct element **find(u64 table, const void *key)
{
	struct element **place = &of_table[table];

	if (table >= program->table_count)
		abort();
	while (*place && memcmp((*place)->key, key, program->tables[table].key_size))
		place = &(*place)->next;
	return place;
}

static void *add(struct element **place, u64 table, const void *key)
{
	struct element *new = &elements[element_count++];

	if (element_count > MOST_ELEMENTS)
		abort();
	new->next = NULL;
	new->table = table;
	new->key = memcpy(room(program->tables[table].key_size), key, program->tables[table].key_size);
	new->value = room(program->tables[table].value_size);
	table_sizes[table]++;
	*place = new;
	return new->value;
}

void *map_lookup(unsigned long map, const void *key)
{
	u64 number = (map - MAP_BASE) / 3;
	struct element **place;

	if (number == LOSSES)
		return *(u32 *)key < LOSS_COUNT ? &losses[*(u32 *)key] : &full[*(u32 *)key - FULL_MAPS];
	if (number == SCRATCH)
		return &scratch;
	if (number == SITE_TEXTS)
		return (void *)(program->site_words + *(u32 *)key * program->words_per_site);
	if (number < FIRST_TABLE || number > SITE_TEXTS)
		return NULL;
	number -= FIRST_TABLE;
	place = find(number, key);
	if (*place)
		return (*place)->value;
	if (!program->tables[number].is_array || *(u32 *)key >= program->tables[number].most)
		return NULL;
	return add(place, number, key);
}

long map_update(unsigned long map, const void *key, const void *value, u64 flags)
{
	u64 number = (map - MAP_BASE) / 3 - FIRST_TABLE;
	struct element **place = find(number, key);
	void *to;

	if (*place && flags == 1)
		return -17;
	if (!*place && table_sizes[number] >= program->tables[number].most)
		return -7;
	to = *place ? (*place)->value : add(place, number, key);
	memcpy(to, value, program->tables[number].value_size);
	return 0;
}

long map_delete(unsigned long map, const void *key)
{
	u64 number = (map - MAP_BASE) / 3 - FIRST_TABLE;
	struct element **place = find(number, key);

	if (!*place)
		return -2;
	*place = (*place)->next;
	table_sizes[number]--;
	return 0;
}

/* bpf_for_each_map_elem(): the elements as they were made. `each` begins with the places of key and value. */
long walk(unsigned long map, u64 function, void *each, u64 flags)
{
	int (*called)(void *) = (void *)function;
	void **given = each;
	long count = 0;
	struct element *at = of_table[(map - MAP_BASE) / 3 - FIRST_TABLE], *next;

	for (; at; at = next, count++) {
		next = at->next;
		given[0] = at->key;
		given[1] = at->value;
		if (called(each))
			break;
	}
	return count;
}

/* bpf_loop(): `each` begins with the number of the round. */
long repeat(u32 rounds, u64 function, void *each, u64 flags)
{
	int (*called)(void *) = (void *)function;
	u64 round;

	for (round = 0; round < rounds; round++) {
		*(u64 *)each = round;
		if (called(each))
			return round + 1;
	}
	return rounds;
}

/* --- what is read back ------------------------------------------------------------------------------------------ */

static void put(const void *from, u64 size)
{
	if (out + (size + 7) / 8 > out_end)
		abort();
	memcpy(out, from, size);
	out += (size + 7) / 8;
}

static void put_word(u64 word)
{
	put(&word, 8);
}

static void put_maps(void)
{
	u64 count = 0;

	put_word(OUT_MAPS);
	for (u64 table = 0; table < program->table_count; table++)
		count += table_sizes[table];
	put_word(count);
	for (u64 table = 0; table < program->table_count; table++) {
		for (struct element *each = of_table[table]; each; each = each->next) {
			put_word(table);
			put(each->key, program->tables[table].key_size);
			put(each->value, program->tables[table].value_size);
		}
	}
}

long ring_output(unsigned long map, const void *record, u64 size, u64 flags)
{
	u64 number = *(const u64 *)record;

	put_word(OUT_RECORD);
	put_word(size);
	put(record, size);
	if (program->shows_map[number])
		put_maps();
	return 0;
}

/* --- called from Python ----------------------------------------------------------------------------------------- */

void shim_memory(const struct page *these, u64 count)
{
	pages = these;
	page_count = count;
}

/* Runs hits one after the other; how many words were written. */
u64 shim_run(const struct program *this, int (**functions)(void *), const struct hit *hits, u64 count, u64 *to, u64 words)
{
	u64 *begin = to, kept = 0; /* hits that did not give their scratch slot back */

	program = this;
	out = to;
	out_end = to + words;
	memset(of_table, 0, sizeof(of_table));
	memset(table_sizes, 0, sizeof(table_sizes));
	memset(losses, 0, sizeof(losses));
	memset(full, 0, sizeof(full));
	memset(shim_control, 0, sizeof(shim_control));
	memset(&scratch, 0, 1 << 14);
	arena_used = element_count = 0;
	shim_control[2] = program->cpid;
	shim_control[3] = program->started;
	for (hit = hits; hit < hits + count; hit++) {
		away = hit->away;
		functions[hit->function]((void *)hit->regs);
		kept += scratch.busy;
		scratch.busy = 0;
	}
	put_maps();
	put_word(OUT_END);
	put_word(kept);
	put(losses, sizeof(losses));
	put(full, sizeof(full));
	put(shim_control, sizeof(shim_control));
	return out - begin;
}
