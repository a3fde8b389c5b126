/* hostile HOW: `steady` that does something before its rounds which a program that is traced should not do. Built with
 * steady.c included, so that it answers as that does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define main steady_main
#include "steady.c"
#undef main

#define PAGE 4096ul
#define IS(name) (!strcmp(how, name))

static const char *how = "";
static char *page_of(void *place) { return (char *)((uintptr_t)place & ~(PAGE - 1)); }

static void quiet(int signal) { (void)signal; }
static void hit_in_handler(int signal) { (void)signal, work(7, "glue"); }
static void *busy(void *unused) {
  for (int i = 0; i < 200; i++) work(i, names[i % 3]);
  return unused;
}
static void wait_all(void) { while (wait(NULL) > 0) continue; }
static jmp_buf away;
NOINLINE static void leaves(void) { longjmp(away, 1); }

/* On a stack of its own, without a way back that an unwinder could find. */
static ucontext_t here, there;
static void elsewhere(void) { work(1, names[0]); }

static void storm_of_forks(int depth) {
  for (int i = 0; i < 3; i++)
    if (!fork()) {
      busy(NULL);
      if (depth) storm_of_forks(depth - 1);
      _exit(0);
    }
  wait_all();
}

static void act(char **argv) {
  void *text = page_of((void *)&work);
  if (IS("zero semaphore")) steady_hit_semaphore = 0;
  if (IS("huge semaphore")) steady_hit_semaphore = 65000;
  if (IS("writable text")) mprotect(text, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
  if (IS("copied text")) {
    char *copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(copy, text, PAGE);
    mprotect(copy, PAGE, PROT_READ | PROT_EXEC);
    /* It is not called: a breakpoint in it would belong to nobody. */
  }
  if (IS("dropped text")) madvise(text, PAGE, MADV_DONTNEED);
  if (IS("locked memory")) mlockall(MCL_CURRENT | MCL_FUTURE);
  if (IS("no dumps")) prctl(PR_SET_DUMPABLE, 0);
  if (IS("other user") && (setgid(65534) || setuid(65534))) _exit(3);
  if (IS("unlinked file")) unlink(argv[0]);
  if (IS("renamed file")) {
    char name[4200];
    snprintf(name, sizeof name, "%s.old", argv[0]);
    rename(argv[0], name), rename(name, argv[0]);
  }
  if (IS("exec storm")) {
    int left = getenv("LEFT") ? atoi(getenv("LEFT")) : 30;
    char number[16];
    snprintf(number, sizeof number, "%d", left - 1);
    setenv("LEFT", number, 1), setenv("STARTED", "1", 1);
    if (left > 0) execv("/proc/self/exe", argv);
  }
  if (IS("fork storm")) storm_of_forks(3);
  if (IS("vfork storm"))
    for (int i = 0; i < 100; i++)
      if (!vfork()) _exit(0);
  if (IS("thread storm"))
    for (int i = 0; i < 20; i++) {
      pthread_t threads[8];
      for (int t = 0; t < 8; t++) pthread_create(&threads[t], NULL, busy, NULL);
      for (int t = 0; t < 8; t++) pthread_join(threads[t], NULL);
    }
  if (IS("other stack")) {
    getcontext(&there);
    there.uc_stack.ss_sp = malloc(65536), there.uc_stack.ss_size = 65536, there.uc_link = &here;
    makecontext(&there, elsewhere, 0);
    swapcontext(&here, &there);
  }
  if (IS("masked signals")) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
  }
  if (IS("ignored traps")) signal(SIGTRAP, SIG_IGN), signal(SIGSEGV, SIG_IGN), signal(SIGILL, SIG_IGN);
  if (IS("own handlers")) signal(SIGTRAP, quiet), raise(SIGTRAP);
  if (IS("signal storm")) {
    signal(SIGALRM, hit_in_handler);
    ualarm(200, 200);
    for (int i = 0; i < 20; i++) usleep(1000), busy(NULL);
    ualarm(0, 0);
  }
  if (IS("small alternative stack")) {
    static char room[16384];
    stack_t other = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action = {.sa_handler = hit_in_handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, NULL), sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
  }
  if (IS("longjmp"))
    for (volatile int i = 0; i < 100; i++)
      if (!setjmp(away)) leaves();
  if (IS("wild pointers"))
    for (int i = 0; i < 200; i++) work(i, (const char *)(0x8000000000000000ul >> (i % 64)));
  if (IS("string without an end")) {
    char *room = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(room, 'x', PAGE), munmap(room + PAGE, PAGE);
    for (int i = 0; i < 100; i++) work(i, room + PAGE - 1 - i);
  }
  if (IS("steering string")) work(1, "\033[2J\033]52;c;ZXZpbA==\007\n@: 1\n\377\200");
  if (IS("traced by its child")) {
    pid_t parent = getpid(), child = fork();
    if (!child) {
      int stopped;
      if (ptrace(PTRACE_ATTACH, parent, 0, 0)) _exit(0);
      waitpid(parent, &stopped, 0), usleep(50000);
      ptrace(PTRACE_DETACH, parent, 0, 0);
      _exit(0);
    }
    usleep(100000), waitpid(child, NULL, 0);
  }
  if (IS("stopped")) {
    pid_t parent = getpid();
    if (!fork()) usleep(150000), kill(parent, SIGCONT), _exit(0);
    raise(SIGSTOP), wait_all();
  }
  if (IS("seccomp")) {
    /* Only what it needs itself: read, write, exit, and what stdio calls. Any other call ends it. */
    static const unsigned allowed[] = {SYS_read, SYS_write, SYS_exit_group, SYS_newfstatat, SYS_fstat, SYS_brk, SYS_mmap};
    struct sock_filter filter[2 * sizeof allowed / sizeof *allowed + 2];
    int at = 0;
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
      filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
      filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {(unsigned short)at, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  }
  if (IS("no descriptors")) {
    struct rlimit none = {3, 3};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  if (IS("own namespace") && unshare(CLONE_NEWNS)) _exit(3);
  if (IS("lowest priority")) setpriority(PRIO_PROCESS, 0, 19);
  if (IS("full address space"))
    while (mmap(NULL, 1ul << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED) continue;
}

int main(int argc, char **argv) {
  char line[64];
  how = argc > 1 ? argv[1] : "";
  for (char *at = argv[1]; argc > 1 && *at; at++)
    if (*at == '_') *at = ' ';
  for (int i = 0; i < 3; i++) (void)*(const volatile char *)names[i];
  if (!getenv("STARTED")) {
    setvbuf(stdin, NULL, _IONBF, 0); /* what comes after this line is for who is executed next */
    printf("ready\n"), fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
  }
  act(argv);
  printf("answer %ld\n", rounds()), fflush(stdout);
  while (fgets(line, sizeof line, stdin)) continue;
  printf("semaphore %u\n", IS("zero semaphore") || IS("huge semaphore") ? 0 : steady_hit_semaphore), fflush(stdout);
  _exit(0);
}
