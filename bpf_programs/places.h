/*
 * What lies at an address of the current process, so that an address keeps its meaning when something else comes there:
 * the kernel's mapping of it (bpf_find_vma, Linux 5.17). The loader puts the function that it calls back behind the
 * program (host/mappings.py).
 */
#pragma once

#if MAPPINGS
/* The mapping's start in bytes, its place in the file in pages, and the file's inode: 0 where it is of no file. */
struct mapping {
	u64 start, page, inode;
};

/* A number for the mapping of an address, nearly always another one for another mapping, 0 if it is of no file: as
 * `symbols.processes` has it. -BUSY while somebody changes the process's mappings. */
static __always_inline s64 number_mapping(u64 address, u32 *number)
{
	struct mapping found = {};
	s64 error = find_mapping(current_task_object(), address, EACH(0, 900), &found, 0);

	if (found.inode)
		*number = (u32)found.inode ^ ((u32)(found.start >> 12) - (u32)found.page) * 0x9e3779b1U;
	return error;
}

#ifdef PLACES
/* An address of a process, with the number of what lay there when it was met last, for when the kernel does not tell. */
struct place {
	u64 process, address;
};

/* The process with the number for what lies at an address of it above. */
static __always_inline u64 place_of(u64 process, u64 address)
{
	struct place place = {process, address};
	u32 *known = map_lookup(PLACES, &place), number = 0;

	if (number_mapping(address, &number) == -BUSY)
		number = known ? *known : 0;
	else if (!known || *known != number)
		map_update(PLACES, &place, &number, UPDATE_ANY);
	return process | (u64)number << 32;
}
#endif
#else
#define place_of(process, address) (process)
#endif
