/* orphans N M: N grandchildren, one after the other, each of which waits until its parent has ended and then passes M times
 * through `orphans:hit` (grandchild, i). */
#include <stdlib.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static void hit(long child, long hits) {
  for (long i = 0; i < hits; i++) DTRACE_PROBE2(orphans, hit, child, i);
}

int main(int argc, char **argv) {
  long children = argc > 1 ? atol(argv[1]) : 100;
  long hits = argc > 2 ? atol(argv[2]) : 1;
  for (long child = 0; child < children; child++) {
    int end[2];
    char byte;
    if (pipe(end)) return 1;
    pid_t pid = fork();
    if (pid == 0) {
      pid_t self = getpid();
      if (fork() == 0) {
        while (getppid() == self) usleep(100);
        hit(child, hits);
      }
      _exit(0);
    }
    waitpid(pid, NULL, 0);
    close(end[1]);
    if (read(end[0], &byte, 1) < 0) return 1; /* until the grandchild has ended */
    close(end[0]);
  }
  return 0;
}
