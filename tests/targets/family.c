/* family N [wait]: the process and processes of every descent pass N times through `family:hit` (kind, i), in order:
 *
 *   0 itself              1 a child               2 a grandchild whose parent has ended
 *   3 two threads of a child                      4 a child that has exec'ed this program
 *   5 the same by vfork   6 the same by posix_spawn
 *   7 a child of a thread                         8 200 children in a row, once each whatever N
 *   9 a child that begins when the process itself has ended
 *
 * With `wait` it first waits for a line. `family N leaf KIND` is what the exec'ed do. */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static long hits;
static char *program;

__attribute__((noinline)) void pass(long kind, long i) { DTRACE_PROBE2(family, hit, kind, i); }

static void run(long kind) {
  for (long i = 0; i < hits; i++) pass(kind, i);
}

static void *run_thread(void *kind) {
  run((long)kind);
  return NULL;
}

static void join(pid_t pid) { waitpid(pid, NULL, 0); }

static void child(long kind) {
  pid_t pid = fork();
  if (pid == 0) {
    run(kind);
    _exit(0);
  }
  join(pid);
}

static void *child_of_thread(void *kind) {
  child((long)kind);
  return NULL;
}

static void orphan(long kind) {
  int end[2];
  char byte;
  if (pipe(end)) abort();
  pid_t pid = fork();
  if (pid == 0) {
    pid_t self = getpid();
    if (fork() == 0) {
      while (getppid() == self) usleep(1000);
      run(kind);
    }
    _exit(0);
  }
  join(pid);
  close(end[1]);
  if (read(end[0], &byte, 1) < 0) abort(); /* until the grandchild has ended */
  close(end[0]);
}

static void threads_of_child(long kind) {
  pid_t pid = fork();
  if (pid == 0) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run_thread, (void *)kind);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    _exit(0);
  }
  join(pid);
}

static void leaf(long kind) {
  char number[24], name[24];
  snprintf(number, sizeof number, "%ld", hits);
  snprintf(name, sizeof name, "%ld", kind);
  char *arguments[] = {program, number, "leaf", name, NULL};
  pid_t pid = kind == 4 ? fork() : kind == 5 ? vfork() : -1;
  if (pid == 0) {
    execv(program, arguments);
    _exit(1);
  }
  if (kind == 6 && posix_spawn(&pid, program, NULL, NULL, arguments, environ)) abort();
  join(pid);
}

int main(int argc, char **argv) {
  program = argv[0];
  hits = argc > 1 ? atol(argv[1]) : 100;
  if (argc > 3) {
    run(atol(argv[3]));
    return 0;
  }
  if (argc > 2) getchar();
  run(0);
  child(1);
  orphan(2);
  threads_of_child(3);
  for (long kind = 4; kind <= 6; kind++) leaf(kind);
  pthread_t thread;
  pthread_create(&thread, NULL, child_of_thread, (void *)7);
  pthread_join(thread, NULL);
  for (long i = 0; i < 200; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      pass(8, i);
      _exit(0);
    }
    join(pid);
  }
  pid_t self = getpid();
  if (fork() == 0) {
    fclose(stdin);
    fclose(stdout);
    fclose(stderr);
    while (getppid() == self) usleep(1000);
    usleep(300000);
    run(9);
    _exit(0);
  }
  puts("done");
  return 0;
}
