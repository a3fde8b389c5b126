/* digs DEPTH [HOW [FILE]]: recurses DEPTH times through `dig` and calls `hit` (depth, address of dig).
 *
 * HOW: `wait` for a line on standard input first; `exec` FILE, another copy of this, with DEPTH alone; `load` FILE, a
 * library with a function `call` that is called to begin, and close it again before the end. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef long dig_t(long);

__attribute__((noinline, noclone, patchable_function_entry(1))) void hit(long depth, dig_t *function) {
  __asm__ volatile("" ::"r"(depth), "r"(function) : "memory");
}

__attribute__((noinline, noclone)) long dig(long depth) {
  long sum = depth;
  if (depth == 0) hit(depth, dig);
  else sum += dig(depth - 1);
  __asm__ volatile("" ::: "memory");
  return sum;
}

int main(int argc, char **argv) {
  long depth = argc > 1 ? atol(argv[1]) : 0;
  const char *how = argc > 2 ? argv[2] : "";
  if (!strcmp(how, "exec") && argc > 3) execl(argv[3], argv[3], argv[1], (char *)NULL);
  if (!strcmp(how, "wait")) {
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) return 1;
  }
  if (!strcmp(how, "load") && argc > 3) {
    void *library = dlopen(argv[3], RTLD_NOW);
    if (!library) return 2;
    void (*call)(dig_t *, long) = (void (*)(dig_t *, long))dlsym(library, "call");
    call(dig, depth);
    dlclose(library);
  } else {
    dig(depth);
  }
  return 0;
}
