/* threads N M [wait]: N threads, each of which passes M times through `threads:hit` (thread, i) and `work`.
 *
 * With `wait` a line on standard input is awaited before the threads are made, so that a tracer can attach to a process
 * whose threads do not exist yet. Prints "done" at the end, and then waits for the end of its input. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>

static long hits;
static pthread_barrier_t start;

__attribute__((noinline, noclone)) long work(long thread, long i) {
  __asm__ volatile("" ::: "memory");
  return thread * 1000000 + i;
}

static void *body(void *argument) {
  long thread = (long)argument;
  pthread_barrier_wait(&start);
  for (long i = 0; i < hits; i++) {
    work(thread, i);
    DTRACE_PROBE2(threads, hit, thread, i);
  }
  return NULL;
}

int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 4;
  hits = argc > 2 ? atol(argv[2]) : 1000;
  int waits = argc > 3 && strcmp(argv[3], "wait") == 0;
  if (waits && getchar() == EOF) return 1;
  pthread_t threads[64];
  if (count < 1 || count > 64) return 1;
  pthread_barrier_init(&start, NULL, (unsigned)count);
  for (long i = 0; i < count; i++) pthread_create(&threads[i], NULL, body, (void *)i);
  for (long i = 0; i < count; i++) pthread_join(threads[i], NULL);
  puts("done");
  fflush(stdout);
  while (waits && getchar() != EOF) continue;
  return 0;
}
