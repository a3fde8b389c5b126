/* A probe without a semaphore, in a file of its own since sys/sdt.h decides that for a whole file. */
#include <sys/sdt.h>

__attribute__((noinline, noclone)) void plain(int id) {
  DTRACE_PROBE1(depot, plain, id);
}
