/* moves HOW BEFORE AFTER [PAUSE_MS LATER [ADDED_MS]]: calls `step` BEFORE times, does something to the page that holds
 * its code, calls it AFTER times, and after a pause LATER times more, each ADDED_MS after the last; prints how many calls
 * there were. HOW: `stay` does nothing; `copy` moves a copy of the page to memory of its own at the same address, `file`
 * one that it reads from its file; `patch` writes other code over `step`; `drop` gives the page back to the kernel. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define ALONE __attribute__((noinline, section("alone"), aligned(PAGE)))

volatile int steps;

ALONE int step(int value) { return ++steps + value; }
ALONE int behind(int value) { return steps - value; }

#ifdef __aarch64__
static const unsigned char OTHER[] = {0x20, 0x00, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6}; /* mov w0, #1; ret */
#else
static const unsigned char OTHER[] = {0x31, 0xc0, 0xff, 0xc0, 0xc3}; /* xor %eax, %eax; inc %eax; ret */
#endif

static char *const page = (char *)&step;

static void own(const char *how) {
  char *copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*how == 'c') {
    memcpy(copy, page, PAGE);
  } else {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r"), *file = fopen("/proc/self/exe", "r");
    while (fgets(line, sizeof line, maps)) {
      unsigned long start, end, offset;
      if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && start <= (uintptr_t)page && (uintptr_t)page < end)
        fseek(file, (long)(offset + ((uintptr_t)page - start)), SEEK_SET);
    }
    if (fread(copy, PAGE, 1, file) != 1) abort();
    fclose(maps), fclose(file);
  }
  /* The kernel tells who asks what becomes executable and where, but not that it moves afterwards. */
  if (*how == 'c') mprotect(copy, PAGE, PROT_READ | PROT_EXEC);
  if (mremap(copy, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) != page) abort();
  if (*how == 'f') mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv) {
  const char *how = argv[1];
  int calls = 0;
  for (int i = 0; i < atoi(argv[2]); i++, calls++) step(i);
  if (!strcmp(how, "copy") || !strcmp(how, "file")) own(how);
  if (!strcmp(how, "drop")) madvise(page, PAGE, MADV_DONTNEED);
  if (!strcmp(how, "patch")) {
    mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(page, OTHER, sizeof OTHER);
    mprotect(page, PAGE, PROT_READ | PROT_EXEC);
  }
  for (int i = 0; i < atoi(argv[3]); i++, calls++) step(i);
  if (argc > 5) {
    puts("ready");
    fflush(stdout);
    usleep((useconds_t)atoi(argv[4]) * 1000);
    for (int i = 0; i < atoi(argv[5]); i++, calls++) {
      step(i);
      if (argc > 6) usleep((useconds_t)atoi(argv[6]) * 1000);
    }
  }
  printf("%d calls\n", calls + (argc > 9 ? behind(calls) : 0));
  return 0;
}
