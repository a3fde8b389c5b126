/* ticker [SECONDS [PERIOD_MS [STATUS]]]: passes through `ticker:tick` (i), which stands behind a semaphore, every
 * PERIOD_MS milliseconds; prints the number of ticks and exits with STATUS. */
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <time.h>

volatile unsigned short ticker_tick_semaphore __attribute__((section(".probes"), used));

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 1.0;
  long period = argc > 2 ? atol(argv[2]) : 10;
  long ticks = (long)(seconds * 1000.0) / period;
  struct timespec pause = {period / 1000, period % 1000 * 1000000};
  for (long i = 0; i < ticks; i++) {
    if (ticker_tick_semaphore) DTRACE_PROBE1(ticker, tick, i);
    nanosleep(&pause, NULL);
  }
  printf("%ld\n", ticks);
  return argc > 3 ? atoi(argv[3]) : 0;
}
