/* zeroes [FILE]: passes `zeroes:tick` every 5 milliseconds, whatever its semaphore says, until it is killed. With FILE it
 * sets its semaphore back after ten ticks, forks a child that does so too, writes its number to FILE and stays, and ends. SIGUSR1: it sets
 * the semaphore back, as a second initialisation does. SIGUSR2: the same from now on, all the time. SIGHUP: it forks,
 * prints the child's number, and the child sets it back. SIGWINCH: it writes what is below 0 to the kernel. */
#define _SDT_HAS_SEMAPHORES 1
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/sdt.h>
#include <time.h>
#include <unistd.h>

volatile unsigned short zeroes_tick_semaphore __attribute__((section(".probes"), used));

static volatile sig_atomic_t asked;

static void ask(int number) { asked = number; }

static void *forever(void *unused) {
  for (;;) zeroes_tick_semaphore = 0;
  return unused;
}

static void say(int number) {
  printf("%d\n", number);
  fflush(stdout);
}

int main(int argc, char **argv) {
  struct timespec pause = {0, 5000000};
  pthread_t thread;
  long ticks = 0;
  signal(SIGUSR1, ask);
  signal(SIGUSR2, ask);
  signal(SIGHUP, ask);
  signal(SIGWINCH, ask);
  say(getpid());
  for (;;) {
    DTRACE_PROBE1(zeroes, tick, ticks++);
    nanosleep(&pause, NULL);
    if (argc > 1 && ticks == 10) {
      zeroes_tick_semaphore = 0;
      if (fork()) return 0;
      zeroes_tick_semaphore = 0;
      freopen("/dev/null", "w", stdout), freopen("/dev/null", "w", stderr); /* nobody waits for its end */
      FILE *file = fopen(argv[1], "w");
      fprintf(file, "%d\n", getpid());
      fclose(file);
      argc = 1;
    }
    int number = asked;
    asked = 0;
    if (number == SIGUSR1) zeroes_tick_semaphore = 0, say(0);
    if (number == SIGWINCH) zeroes_tick_semaphore = 0xfde8, say(0);
    if (number == SIGUSR2) pthread_create(&thread, NULL, forever, NULL), say(0);
    if (number == SIGHUP) {
      pid_t child = fork();
      if (child > 0) say(child);
      else zeroes_tick_semaphore = 0;
    }
  }
}
