/* hits COMMAND [ARGS]: one kind of hit each, for the tests of the BCC backend.
 *
 *   values THREADS N    hits:value(thread, i, value) N times in each thread; the values go around all edges of 64 bits
 *   strings             hits:text(address): at the end of a page, over an edge, unmapped, null, around the sizes of buffers
 *   cold                hits:text(address) of a page that was never touched
 *   names N K           hits:name(text, i) N times, with K different texts of 8 to 200 bytes
 *   flood THREADS N     hits:flood(i, text) N times in each thread, with four texts in turn */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>

static long rounds;

static const struct {
  char before[131072];
  char text[4096];
  char after[131072];
} cold __attribute__((aligned(4096))) = {.text = "a page nobody touched"};

static int64_t edge(long i) {
  int64_t power = (int64_t)(1ull << (i / 5 % 64));
  return (int64_t)((uint64_t)power + (uint64_t)(i % 5 - 2));
}

static void *values(void *thread) {
  for (long i = 0; i < rounds; i++) DTRACE_PROBE3(hits, value, (long)thread, i, edge(i));
  return NULL;
}

static void *flood(void *thread) {
  static const char *const texts[4] = {"alpha", "beta", "gamma", "delta"};
  for (long i = 0; i < rounds; i++) {
    const char *text = texts[i & 3];
    __asm__ volatile("" : "+r"(text));  // in a register, which ftrace can read a string from
    DTRACE_PROBE2(hits, flood, i, text);
  }
  return thread;
}

static void text(const char *at) { DTRACE_PROBE1(hits, text, at); }

static void strings(void) {
  char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  static char big[5000];
  munmap(pages + 2 * 4096, 4096);
  text(strcpy(pages + 2 * 4096 - 6, "edges"));
  text(strcpy(pages + 4096 - 4, "over the edge"));
  memset(pages + 2 * 4096 - 6, 'x', 6);
  text(pages + 2 * 4096 - 6);
  text((char *)16);
  text(NULL);
  memset(big, 'a', sizeof(big) - 1);
  for (int length = 62; length <= 66; length++) {
    big[length] = 0;
    text(big);
    big[length] = 'a';
  }
  for (int length = 1022; length <= 1025; length++) {
    big[length] = 0;
    text(big);
    big[length] = 'a';
  }
}

static void names(long n, long kinds) {
  char name[256];
  for (long i = 0; i < n; i++) {
    long kind = i % kinds;
    int length = 8 + (int)(kind * 7 % 193);
    memset(name, 'a' + (int)(kind % 26), sizeof(name));
    snprintf(name, sizeof(name), "%06ld", kind);
    name[6] = '-';
    name[length] = 0;
    DTRACE_PROBE2(hits, name, name, i);
  }
}

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  if (!strcmp(command, "values") || !strcmp(command, "flood")) {
    void *(*body)(void *) = strcmp(command, "flood") ? values : flood;
    pthread_t threads[16];
    long count = atol(argv[2]);
    rounds = atol(argv[3]);
    for (long i = 0; i < count; i++) pthread_create(&threads[i], NULL, body, (void *)i);
    for (long i = 0; i < count; i++) pthread_join(threads[i], NULL);
  } else if (!strcmp(command, "strings")) {
    strings();
  } else if (!strcmp(command, "cold")) {
    text(cold.text);
  } else if (!strcmp(command, "names")) {
    names(atol(argv[2]), atol(argv[3]));
  }
  return 0;
}
