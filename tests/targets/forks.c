/* forks N M: the process itself and N children, one after the other, each pass M times through `forks:hit` (child, i);
 * the process itself is child 0 and comes last. */
#include <stdlib.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static void hit(long child, long hits) {
  for (long i = 0; i < hits; i++) DTRACE_PROBE2(forks, hit, child, i);
}

int main(int argc, char **argv) {
  long children = argc > 1 ? atol(argv[1]) : 3;
  long hits = argc > 2 ? atol(argv[2]) : 100;
  for (long child = 1; child <= children; child++) {
    pid_t pid = fork();
    if (pid == 0) {
      hit(child, hits);
      _exit(0);
    }
    waitpid(pid, NULL, 0);
  }
  hit(0, hits);
  return 0;
}
