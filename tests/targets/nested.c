/* nested HOW DEPTH TIMES: calls a function DEPTH deep, TIMES times, and prints how often it was called and how often it
 * returned. HOW: "self" (it calls itself), "mutual" (through two others), "pointer" (through a pointer, which no reader
 * of its code can follow), "threads" (as "pointer", by four threads at once), "fork" (as "pointer", and a child that is
 * made at the bottom returns too), "jump" (as "pointer", but longjmp leaves it at the bottom; then ten calls of depth
 * one), "signal" (as "pointer", the lower half by a signal's handler). */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone, optimize("no-optimize-sibling-calls", "no-ipa-icf")))

static _Atomic long calls, returns;
static const char *how;
static jmp_buf top;
static int bottom_pid;

int self(int depth);
int first(int depth), second(int depth), third(int depth);
int pointed(int depth);
int (*volatile again)(int) = pointed;

PROBED int self(int depth) {
  int below = 0;
  calls++;
  if (depth > 1)
    below = self(depth - 1);
  returns++;
  return below + 1;
}

PROBED int first(int depth) {
  int below = 0;
  calls++;
  if (depth > 1)
    below = second(depth - 1);
  returns++;
  return below + 1;
}
PROBED int second(int depth) { return third(depth) * 2 / 2 + (depth < -5); }
PROBED int third(int depth) { return first(depth) * 3 / 3 + (depth < -7); }

static void at_bottom(void) {
  if (!strcmp(how, "jump"))
    longjmp(top, 1);
  if (!strcmp(how, "fork") && !bottom_pid && !(bottom_pid = fork())) {
    bottom_pid = -1;
    calls = returns = 0;
  }
}

PROBED int pointed(int depth) {
  int below = 0;
  calls++;
  if (depth > 1)
    below = again(depth - 1);
  else
    at_bottom();
  returns++;
  return below + 1;
}

static int rounds, depth_wanted;

static void on_signal(int number) {
  again(number ? depth_wanted / 2 : 0);
}

PROBED int upper(int depth) {
  int below = 0;
  calls++;
  if (depth > 1)
    below = upper(depth - 1);
  else
    raise(SIGUSR1);
  returns++;
  return below + 1;
}

static void *work(void *unused) {
  (void)unused;
  for (int i = 0; i < rounds; i++)
    again(depth_wanted);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 4)
    return 2;
  how = argv[1];
  depth_wanted = atoi(argv[2]), rounds = atoi(argv[3]);
  if (!strcmp(how, "threads")) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
      pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
      pthread_join(threads[i], NULL);
  } else if (!strcmp(how, "jump")) {
    for (volatile int i = 0; i < rounds; i++)
      if (!setjmp(top))
        again(depth_wanted);
    how = "";
    for (int i = 0; i < 10; i++)
      again(1);
  } else {
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < rounds; i++)
      !strcmp(how, "self")     ? self(depth_wanted)
      : !strcmp(how, "mutual") ? first(depth_wanted)
      : !strcmp(how, "signal") ? upper(depth_wanted / 2)
                               : again(depth_wanted);
  }
  if (bottom_pid > 0)
    waitpid(bottom_pid, NULL, 0);
  printf("%ld %ld\n", calls, returns);
  fflush(stdout);
  _exit(0);
}
