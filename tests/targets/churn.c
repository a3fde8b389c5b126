/* churn N M [wait]: N threads, at most four at a time, live only for M passes through `churn:hit` (thread, i).
 *
 * With `wait` a line on standard input is awaited first. Prints "done", and then waits for the end of its input. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>

static long hits;

static void *body(void *argument) {
  long thread = (long)argument;
  for (long i = 0; i < hits; i++) DTRACE_PROBE2(churn, hit, thread, i);
  return NULL;
}

int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 100;
  hits = argc > 2 ? atol(argv[2]) : 10;
  int waits = argc > 3 && strcmp(argv[3], "wait") == 0;
  if (waits && getchar() == EOF) return 1;
  for (long made = 0; made < count; made += 4) {
    pthread_t threads[4];
    long some = count - made < 4 ? count - made : 4;
    for (long i = 0; i < some; i++) pthread_create(&threads[i], NULL, body, (void *)(made + i));
    for (long i = 0; i < some; i++) pthread_join(threads[i], NULL);
  }
  puts("done");
  fflush(stdout);
  while (waits && getchar() != EOF) continue;
  return 0;
}
