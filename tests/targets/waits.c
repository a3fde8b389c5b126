/* waits SECONDS [CALLS]: calls `took` and `nop5` CALLS times with readable memory, prints "ready", then both once with
 * memory of a userfaultfd that nobody serves. They read none of it. SIGALRM ends it after SECONDS, wherever it waits. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

__attribute__((noinline)) int took(int number, const char *text) {
  __asm__ volatile("" ::"r"(text) : "memory");
  return number;
}

#ifdef __x86_64__
/* Begins with an instruction for which Linux 6.18 can put a call in place of the trap. */
__asm__(".text\n.globl nop5\n.type nop5,@function\nnop5: .byte 0x0f,0x1f,0x44,0,0\nret\n.size nop5,.-nop5\n");
#else
__asm__(".text\n.globl nop5\n.type nop5,%function\nnop5: nop\nret\n.size nop5,.-nop5\n");
#endif
void nop5(int number, const char *text);

int main(int argc, char **argv) {
  int calls = argc > 2 ? atoi(argv[2]) : 0;
  signal(SIGALRM, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm((unsigned)atoi(argv[1]));
  int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API};
  char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register range = {{(unsigned long)page, PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
  if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range)) return 1;
  for (int i = 0; i < calls; i++) took(i, "text"), nop5(i, "text");
  puts("ready");
  fflush(stdout);
  took(calls, page);
  nop5(calls, page);
  pause();
  return 0;
}
