/* mixer SEED ROUNDS: numbers of every width and sign, many small and some of any size; tests/vm/mixer.py computes the
 * same ones. It says "ready", waits for a line, and says "done" at its end. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>

static uint64_t state;

/* splitmix64, which is in the public domain. */
static uint64_t next(void) {
  uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

static uint64_t some(void) {
  uint64_t which = next(), value = next();
  return which % 4 ? value % 9 - 4 : value;
}

__attribute__((noinline, noclone)) uint64_t wide(uint64_t a, uint64_t b, uint64_t c) {
  __asm__ volatile("" ::: "memory");
  return a * 3 + b - c;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  state = strtoull(argv[1], 0, 10);
  long rounds = atol(argv[2]);
  puts("ready");
  fflush(stdout);
  getchar();
  for (long i = 0; i < rounds; i++) {
    uint8_t a = some();
    int8_t b = some();
    uint16_t c = some();
    int16_t d = some();
    uint32_t e = some();
    int32_t f = some();
    uint64_t g = some();
    int64_t h = some();
    DTRACE_PROBE8(mixer, round, a, b, c, d, e, f, g, h);
    if (i % 3 == 0) DTRACE_PROBE8(mixer, third, h, g, f, e, d, c, b, a);
    wide(g, (uint64_t)h, (uint64_t)(int64_t)f);
  }
  puts("done");
  fflush(stdout);
  return 0;
}
