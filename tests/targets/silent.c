/* silent [SECONDS]: what is never hit though its program runs, each for a reason of its own: `silent:gated` stands
 * behind a semaphore that the program puts back to 0 every millisecond; `twice` is inlined wherever it is called;
 * `unused` is called by nobody; a copy of `copied` is called in its place; `chosen` is an indirect function of which
 * `chosen_here` is what everybody calls. */
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <time.h>

volatile unsigned short silent_gated_semaphore __attribute__((section(".probes"), used));

int twice(int value) { return 2 * value + 1; }

__attribute__((noinline)) int shop(int value) { return twice(value) * twice(value + 1); }
__attribute__((noinline)) int bake(int value) { return twice(value + 7); }
__attribute__((noinline)) int unused(int value) { return value + 3; }

static int chosen_here(int value) { return value + 5; }
static int (*resolver(void))(int) { return chosen_here; }
int chosen(int value) __attribute__((ifunc("resolver")));

/* As GCC names a copy of a function for callers that all give the same argument. */
int copy_of(int value) __asm__("copied.constprop.0");
__attribute__((noinline)) int copy_of(int value) { return 9 * value; }
__attribute__((noinline)) int copied(int value, int by) { return by * value; }

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 1.0;
  struct timespec pause = {0, 1000000};
  int sum = argc > 2 ? chosen(argc) + unused(argc) : 0;
  for (long i = 0; i < (long)(seconds * 1000.0); i++) {
    if (silent_gated_semaphore && argc > 2) DTRACE_PROBE1(silent, gated, i);
    silent_gated_semaphore = 0;
    sum += shop((int)i) + bake((int)i) + copy_of((int)i);
    nanosleep(&pause, NULL);
  }
  printf("%d\n", sum);
  return 0;
}
