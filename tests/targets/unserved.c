/* Passes strings to `take`, which reads none of them: one on a page that never comes, one on a page that the kernel brings,
 * and one in memory. `unserved TIMES [FILE [wait]]`: the page is of userfaultfd memory that nobody serves, or of the file
 * unless that is `-`. With `wait` it calls once a line has come from stdin, and with `later` as the first word it asks for
 * the memory only after a line before that. `unserved words WORD` has the word there, and waits. Ends by itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) void take(int number, const char *text)
{
	asm volatile("" ::"r"(number), "r"(text) : "memory");
}

static void *serve(void *memory, unsigned long length)
{
	int handler = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register wanted = {.range = {(unsigned long)memory, length}, .mode = UFFDIO_REGISTER_MODE_MISSING};

	if (handler < 0 || ioctl(handler, UFFDIO_API, &api) || ioctl(handler, UFFDIO_REGISTER, &wanted))
		return NULL;
	return memory;
}

static void *never(const char *path)
{
	if (path) {
		int file = open(path, O_RDONLY);
		void *page = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);

		return file < 0 || page == MAP_FAILED ? NULL : page;
	}
	return serve(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
}

/* Waits, while the memory of its second word and of the variable X, both longer than some pages, is such memory. */
static int moved(const char *word)
{
	unsigned long begin = ((unsigned long)word + 4095) & ~4095UL;
	unsigned long length = (((unsigned long)getenv("X") + strlen(getenv("X"))) & ~4095UL) - begin;

	if (!serve((void *)begin, length) || madvise((void *)begin, length, MADV_DONTNEED)) {
		perror("moved");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	return pause();
}

int main(int count, char **words)
{
	char line[16];
	int later = count > 1 && !strcmp(words[1], "later");

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(15);
	if (count > 1 && !strcmp(words[1], "words"))
		return moved(words[2]);
	words += later, count -= later;
	int times = atoi(words[1]);
	if (later)
		fgets(line, sizeof(line), stdin);
	const char *page = never(count > 2 && strcmp(words[2], "-") ? words[2] : NULL);
	if (!page) {
		perror("unserved");
		return 1;
	}
	char *cold = mmap(0, 4096, PROT_READ, MAP_PRIVATE, open("/proc/self/exe", O_RDONLY), 0);
	puts("ready");
	fflush(stdout);
	if (count > 3)
		fgets(line, sizeof(line), stdin);
	for (int i = 0; i < times; i++) {
		madvise(cold, 4096, MADV_DONTNEED);
		take(1, page);
		take(2, cold);
		take(3, "warm");
	}
	puts("done");
	return 0;
}
