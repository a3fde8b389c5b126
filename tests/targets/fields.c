/* fields ROUNDS: calls work() so often, with numbers and texts in registers and in memory at fixed addresses, and
 * passes through `fields:step` (the round, a text), which stands behind a semaphore. */
#define _SDT_HAS_SEMAPHORES 1
#include <stdlib.h>
#include <sys/sdt.h>

volatile unsigned short fields_step_semaphore __attribute__((section(".probes"), used));

volatile int number = 1234567;
char text[32] = "global text";

struct record {
  int a;
  unsigned low : 3, middle : 7, high : 22;
  short four[4];
  const char *text;
} record = {-7, 5, 99, 12345, {1, -2, 3, -4}, "hello world"};

__attribute__((noinline)) long work(struct record *record, const char *text, long round) {
  __asm__ volatile("" ::: "memory");
  return round * 2 + record->a;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 3;
  for (int i = 0; i < rounds; i++) {
    work(&record, "argument text", i - 1);
    if (fields_step_semaphore) DTRACE_PROBE2(fields, step, i, text);
  }
  return 0;
}
