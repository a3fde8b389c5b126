/* inject REPORT NUMBER N ERRNO TARGET COMMAND...: runs a command, and lets the N-th call of one system call that it and all
 * processes that descend from it make fail with ERRNO, but for those that run the file TARGET; with N below 0 all calls from
 * the -N-th on. With NUMBER -1 nothing fails.
 *
 * A seccomp notifier: unlike a preloaded library it sees the calls that go through syscall(2), libbcc and machine code,
 * and unlike ptrace it leaves ptrace to the command. Calls count from the moment at which Python opens
 * tracer/__main__.py: what Python needs to get there is not the command's to mend. SIGINT and SIGTERM are handed on.
 *
 * REPORT gets JSON: whether Python got so far ("began"), how many calls there were of each number (of all with -1, else of NUMBER), whose call failed first, the
 * command's status as of wait(2), and after how many seconds it had ended, and all its descendants ("gone", -1: not
 * within 5 seconds of its end; these are killed). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#define CALLS 512
#define STAY_S 5.0

static const char *report, *target;
static long number, nth, error;
static char **command;
static char self[4096];
static volatile int listener = -1;
static volatile pid_t child;
static long counts[CALLS];
static int opened, began;
static char failed[512];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int start(void *unused) {
  (void)unused;
  __u32 all = number < 0 ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number < 0 ? SYS_openat : (__u32)number, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
      /* A signal makes a call that waits here fail with EINTR, which nobody expects of this one. */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, all),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  int made = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                          SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
  listener = made < 0 ? -2 : made; /* memory is shared until the exec, and so are the descriptors */
  if (made >= 0) execvp(command[0], command);
  _exit(127);
}

static void hand_on(int signal) {
  if (child > 0) kill(child, signal);
}

/* Whether a call on this descriptor of a task may say that it would have to wait. */
static int may_not_wait(const struct seccomp_notif *call) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/%u/fdinfo/%d", call->pid, (int)call->data.args[0]);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[got > 0 ? got : 0] = 0;
  const char *flags = strstr(text, "flags:");
  return flags != NULL && (strtol(flags + 6, NULL, 8) & O_NONBLOCK);
}

/* Whether this call of a task is one to count. */
static int counts_here(const struct seccomp_notif *call) {
  char path[64], exe[4096], name[512];
  snprintf(path, sizeof path, "/proc/%u/exe", call->pid);
  ssize_t length = readlink(path, exe, sizeof exe - 1);
  if (length < 0) return 0;
  exe[length] = 0;
  if (!strcmp(exe, self) || !strncmp(exe, target, strlen(target))) return 0;
  if (!began && call->data.nr == SYS_openat) {
    snprintf(path, sizeof path, "/proc/%u/mem", call->pid);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = memory < 0 ? -1 : pread(memory, name, sizeof name - 1, (off_t)call->data.args[1]);
    if (memory >= 0) close(memory);
    if (got > 0) {
      name[got] = 0;
      // Python itself reads that file: what it says of an error there is its own.
      int own = strstr(name, "/tracer/__main__") || strstr(name, "/tracer/__pycache__/__main__");
      began = opened && !own;
      opened = opened || own;
    }
  }
  // futex(2) names its errors for those that wait: libc ends a program that gets one for a wake.
  int operation = (int)call->data.args[1] & FUTEX_CMD_MASK;
  if (call->data.nr == SYS_futex && operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) return 0;
  // Where the kernel looks something up it is the answer that nothing, or nothing more, is there.
  long asked = (long)call->data.args[0];
  int looks = asked == BPF_MAP_LOOKUP_ELEM || asked == BPF_MAP_GET_NEXT_KEY || asked == BPF_MAP_LOOKUP_BATCH;
  if (error == ENOENT && call->data.nr == SYS_bpf && looks) return 0;
  int reads = call->data.nr == SYS_read || call->data.nr == SYS_readv || call->data.nr == SYS_pread64;
  if (error == EAGAIN && reads && !may_not_wait(call)) return 0;
  return began && (number < 0 || call->data.nr == number);
}

static void describe(const struct seccomp_notif *call) {
  char path[64], comm[32] = "";
  snprintf(path, sizeof path, "/proc/%u/comm", call->pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = file < 0 ? 0 : read(file, comm, sizeof comm - 1);
  if (file >= 0) close(file);
  for (ssize_t i = 0; i < got; i++)
    if (comm[i] < ' ' || comm[i] == '"' || comm[i] == '\\') comm[i] = i + 1 == got ? 0 : '?';
  snprintf(failed, sizeof failed, "{\"pid\": %u, \"comm\": \"%s\", \"main\": %s, \"args\": [%lld, %lld, %lld]}", call->pid,
           comm, (pid_t)call->pid == child ? "true" : "false", (long long)call->data.args[0],
           (long long)call->data.args[1], (long long)call->data.args[2]);
}

static void answer_one(void) {
  union {
    struct seccomp_notif call;
    char room[1024];
  } got;
  memset(&got, 0, sizeof got);
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &got)) return;
  struct seccomp_notif_resp answer = {.id = got.call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  if (counts_here(&got.call) && got.call.data.nr >= 0 && got.call.data.nr < CALLS) {
    long count = ++counts[got.call.data.nr];
    if (number >= 0 && (count == nth || (nth < 0 && count >= -nth))) {
      if (!*failed) describe(&got.call);
      answer.flags = 0;
      answer.error = (int)-error;
    }
  }
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* fails where the task was killed meanwhile */
}

static void kill_descendants(void) {
  for (int round = 0; round < 50; round++) {
    char path[64], line[65536];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? 0 : read(file, line, sizeof line - 1);
    if (file >= 0) close(file);
    if (got <= 0) return;
    line[got] = 0;
    for (char *at = line, *end; *at; at = end + 1) {
      long pid = strtol(at, &end, 10);
      if (end == at) break;
      kill((pid_t)pid, SIGKILL);
    }
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    if (poll(&ready, 1, 20) > 0 && (ready.revents & POLLIN)) answer_one();
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  }
}

int main(int argc, char **argv) {
  if (argc < 7) return 2;
  report = argv[1], number = atol(argv[2]), nth = atol(argv[3]), error = atol(argv[4]), target = argv[5];
  command = argv + 6;
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 2;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  sigprocmask(SIG_BLOCK, &ours, NULL);
  signal(SIGINT, hand_on);
  signal(SIGTERM, hand_on);

  double from = now(), ended = -1, gone = -1;
  int status = -1;
  char *stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  child = clone(start, stack + (1 << 16), CLONE_VM | CLONE_FILES | SIGCHLD, NULL);
  if (child < 0) return 2;
  while (listener == -1) usleep(100);
  if (listener < 0) return 3;
  __u64 flag = 1; /* wake the other side on this processor: half the time of a call */
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flag);
  sigprocmask(SIG_UNBLOCK, &ours, NULL);

  while (gone < 0) {
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    int some = poll(&ready, 1, 50);
    if (some > 0 && (ready.revents & POLLIN)) answer_one();
    else if (some > 0 && (ready.revents & POLLHUP)) gone = now() - from;
    int how;
    for (pid_t pid; ended < 0 && (pid = waitpid(-1, &how, gone < 0 ? WNOHANG : 0)) > 0;)
      if (pid == child) status = how, ended = now() - from;
    if (gone < 0 && ended >= 0 && now() - from - ended > STAY_S) break;
  }
  FILE *file = fopen(report, "we");
  if (!file) return 2;
  fprintf(file, "{\"status\": %d, \"began\": %s, \"ended\": %.3f, \"gone\": %.3f, \"failed\": %s, \"counts\": {", status,
          began ? "true" : "false", ended, gone, *failed ? failed : "null");
  const char *comma = "";
  for (int i = 0; i < CALLS; i++)
    if (counts[i]) fprintf(file, "%s\"%d\": %ld", comma, i, counts[i]), comma = ", ";
  fprintf(file, "}}\n");
  fclose(file);
  if (gone < 0) kill_descendants();
  return 0;
}
