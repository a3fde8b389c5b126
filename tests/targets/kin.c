/* kin: a thread, "worker", makes a child, "child", of which a thread, "second", calls hit(parent's number). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline, noclone)) void hit(long parent) { __asm__ volatile("" ::"r"(parent) : "memory"); }

static void *second(void *argument) {
  prctl(PR_SET_NAME, "second");
  hit(getppid());
  return argument;
}

static void *worker(void *argument) {
  prctl(PR_SET_NAME, "worker");
  pid_t child = fork();
  if (child == 0) {
    pthread_t thread;
    prctl(PR_SET_NAME, "child");
    pthread_create(&thread, NULL, second, NULL);
    pthread_join(thread, NULL);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  return argument;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, worker, NULL);
  pthread_join(thread, NULL);
  return 0;
}
