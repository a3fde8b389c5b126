/* gated [PERIOD_MS]: passes through `gated:tick` (pid), which stands behind a semaphore, every PERIOD_MS milliseconds,
 * until it is killed. SIGUSR1: it forks, prints the child's number, and the child goes on like itself. SIGUSR2: it
 * runs its own program anew, in the same process. SIGHUP: a child prints its number and sleeps for three seconds in the
 * memory of its parent, as between vfork and exec. */
#define _GNU_SOURCE
#define _SDT_HAS_SEMAPHORES 1
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <time.h>
#include <unistd.h>

volatile unsigned short gated_tick_semaphore __attribute__((section(".probes"), used));

static volatile sig_atomic_t asked;

static void ask(int number) { asked = number; }

int main(int argc, char **argv) {
  long period = argc > 1 ? atol(argv[1]) : 5;
  struct timespec pause = {0, period * 1000000};
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGUSR1, ask);
  signal(SIGUSR2, ask);
  signal(SIGHUP, ask);
  signal(SIGCHLD, SIG_IGN);
  printf("%d\n", getpid());
  fflush(stdout);
  for (;;) {
    if (gated_tick_semaphore) DTRACE_PROBE1(gated, tick, getpid());
    nanosleep(&pause, NULL);
    int number = asked;
    asked = 0;
    if (number == SIGUSR1) {
      pid_t child = fork();
      if (child > 0) {
        printf("%d\n", child);
        fflush(stdout);
      }
    } else if (number == SIGUSR2) {
      execv("/proc/self/exe", argv);
    } else if (number == SIGHUP) {
      if (vfork() == 0) {
        char text[16];
        write(1, text, snprintf(text, sizeof text, "%d\n", getpid()));
        sleep(3);
        _exit(0);
      }
    }
  }
}
