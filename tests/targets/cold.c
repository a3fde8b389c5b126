#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* Opens names that lie in a file's mapping, each on a page of its own; every other page is given back before. */
int main(int argc, char **argv)
{
	int count = atoi(argv[2]), opened = 0;
	int names = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	char text[64];
	ftruncate(names, count * 4096L);
	for (int i = 0; i < count; i++) {
		snprintf(text, sizeof text, "/nowhere/%d", i);
		pwrite(names, text, strlen(text) + 1, i * 4096L);
	}
	fsync(names);
	char *mapped = mmap(0, count * 4096L, PROT_READ, MAP_PRIVATE, names, 0);
	for (int i = 0; i < count; i++) {
		char *name = mapped + i * 4096L;
		volatile char touched = *name;
		(void)touched;
		if (i % 2)
			madvise(name, 4096, MADV_DONTNEED);
		opened += open(name, O_RDONLY) >= 0;
	}
	return opened;
}
