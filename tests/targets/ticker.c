/* ticker [SECONDS [PERIOD_MS]]: passes through `ticker:tick` (i) every PERIOD_MS milliseconds; prints the number of ticks. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <time.h>

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 1.0;
  long period = argc > 2 ? atol(argv[2]) : 10;
  long ticks = (long)(seconds * 1000.0) / period;
  struct timespec pause = {period / 1000, period % 1000 * 1000000};
  for (long i = 0; i < ticks; i++) {
    DTRACE_PROBE1(ticker, tick, i);
    nanosleep(&pause, NULL);
  }
  printf("%ld\n", ticks);
  return 0;
}
