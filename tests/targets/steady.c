/* steady: what the attacks trace. It says "ready", waits for a line, works for 100 rounds and says its answer, the sum of
 * what `work` returned; then it waits for the end of its input and says the counter of its probe's semaphore. In each
 * round it writes `progress` once, and makes one system call that it makes nowhere else, getppid(). */
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <sys/sdt.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, noipa))

volatile unsigned short steady_hit_semaphore __attribute__((section(".probes"), used));
volatile long progress;
static const char *const names[] = {"bolts", "glue", "nails"};

NOINLINE long work(long round, const char *name) {
  __asm__ volatile("" ::"r"(name) : "memory");
  return round * round % 97;
}

NOINLINE void hit(long round, const char *name) {
  if (steady_hit_semaphore) DTRACE_PROBE2(steady, hit, round, name);
}

NOINLINE long rounds(void) {
  long sum = 0;
  for (long round = 0; round < 100; round++) {
    hit(round, names[round % 3]);
    sum += work(round, names[round % 3]);
    progress = round;
    getppid();
  }
  return sum;
}

int main(void) {
  char line[64];
  for (int i = 0; i < 3; i++) (void)*(const volatile char *)names[i];
  printf("ready\n"), fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) return 1;
  printf("answer %ld\n", rounds()), fflush(stdout);
  while (fgets(line, sizeof line, stdin)) continue;
  printf("semaphore %u\n", steady_hit_semaphore);
  return 0;
}
