/* signalled: passes five times through `hit` (0 to 4) in its first thread and in another one, which goes first. At its
 * end it says which signals came, as "NUMBER TOTAL OF_THE_OTHER_THREAD" in the order of their numbers. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile int all[65], others[65];
static __thread int is_other;

static void count(int number) {
  all[number]++;
  others[number] += is_other;
}

__attribute__((noinline, noclone)) int hit(int n) {
  __asm__ volatile("" ::: "memory");
  return n + 1;
}

static void *pass(void *other) {
  is_other = other != NULL;
  for (int i = 0; i < 5; i++) hit(i);
  return NULL;
}

int main(void) {
  struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
  for (int number = 1; number <= 64; number++)
    if (number != SIGINT && number != SIGTERM && number != SIGSEGV) sigaction(number, &action, NULL);
  pthread_t other;
  if (pthread_create(&other, NULL, pass, &other)) return 1;
  pthread_join(other, NULL);
  pass(NULL);
  for (int number = 1; number <= 64; number++)
    if (all[number]) printf("%d %d %d\n", number, all[number], others[number]);
  return 0;
}
