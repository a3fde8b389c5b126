/* hot [SECONDS]: calls `spin` without pause and says every 20 ms, as "NS", how many nanoseconds of CPU time one call took
 * on average; where others have the CPU meanwhile, once it had 10 ms of it. For each line it calls `spin_mark` once.
 *
 * A probe on `spin` or `hot:spin` makes a call some hundred times slower, so that the output shows when it is there. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <time.h>

static double at(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double now(void) { return at(CLOCK_MONOTONIC); }

static double spent(void) { return at(CLOCK_THREAD_CPUTIME_ID); }

__attribute__((noinline, noclone)) long spin(long i) {
  __asm__ volatile("" ::: "memory");
  DTRACE_PROBE1(hot, spin, i);
  return i;
}

__attribute__((noinline, noclone)) void spin_mark(void) { __asm__ volatile("" ::: "memory"); }

int main(int argc, char **argv) {
  double end = now() + (argc > 1 ? atof(argv[1]) : 10.0) * 1e9, mark = now(), cpu = spent();
  long calls = 0;
  for (long i = 0;; i++) {
    spin(i);
    if (++calls & 127) continue;
    double t = now();
    if (t - mark < 2e7) continue;
    double used = spent() - cpu;
    if (used < 1e7) continue;
    spin_mark();
    printf("%.1f\n", used / (double)calls);
    fflush(stdout);
    if (t > end) return 0;
    mark = now();
    cpu = spent();
    calls = 0;
  }
}
