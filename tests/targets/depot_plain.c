/* Probes without semaphores, in a file of their own since sys/sdt.h decides that for a whole file. */
#include <sys/sdt.h>

#define NOINLINE __attribute__((noinline, noclone))
/* A frame of its own for each function, from its first instructions on, so that stacks can be walked by frame pointers. */
#define FRAME() __asm__ volatile("" ::"r"(__builtin_frame_address(0)) : "memory")

NOINLINE void plain(int id) {
  DTRACE_PROBE1(depot, plain, id);
}

static NOINLINE void inner(int id) {
  FRAME();
  DTRACE_PROBE1(depot, nested, id);
  FRAME();
}

static NOINLINE void middle(int id) {
  FRAME();
  inner(id + 1);
  FRAME();
}

NOINLINE void outer(int id) {
  FRAME();
  middle(id + 1);
  FRAME();
}
