/* depot [ROUNDS]: the deterministic target of the contract suite; tests/contract/depot.py computes the same hits.
 *
 * All USDT probes here stand behind semaphores; the ones in depot_plain.c have none. What a probe is handed depends on
 * ROUNDS alone. Strings are touched before the first probe, but for the one whose page stays cold. */
#define _SDT_HAS_SEMAPHORES 1
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sdt.h>

#define SEMAPHORE(probe) volatile unsigned short depot_##probe##_semaphore __attribute__((section(".probes"), used))
#define NOINLINE __attribute__((noinline, noclone))
#define KEEP() __asm__ volatile("" ::: "memory")

SEMAPHORE(parcel);
SEMAPHORE(widths);
SEMAPHORE(move);
SEMAPHORE(cell);
SEMAPHORE(row);
SEMAPHORE(gauge);
SEMAPHORE(fixed);
SEMAPHORE(label);
SEMAPHORE(stray);
SEMAPHORE(wide);
SEMAPHORE(callback);

struct crate {
  int32_t weight;
  uint16_t code;
  int8_t grade;
  uint8_t pad;
  const char *owner;
};

static const char *const items[] = {"bolts", "copper wire", "glue", "\303\251tau", "3\" \"brass\" nails"};

/* 128 KiB on either side keep the kernel from mapping this page along with a neighbour. A file that was just written can
 * have large folios, which are mapped as a whole: so the page is thrown out before it is used. */
static const struct {
  char before[131072];
  char text[4096];
  char after[131072];
} cold __attribute__((aligned(4096))) = {.text = "a page nobody touched"};

volatile int32_t stock = 11;
volatile int64_t low[4] = {3, 5, 7, 9};
static int64_t grid[16];

extern void plain(int id);
extern void outer(int id);

NOINLINE long price(int id, int zone) {
  KEEP();
  return (long)id * id % 97 * (zone + 1);
}

NOINLINE int sign_of(int delta) {
  KEEP();
  return delta < 0 ? -1 : delta > 0;
}

NOINLINE uint64_t six(uint64_t a, int b, short c, signed char d, uint64_t e, uint32_t f) {
  KEEP();
  return a + (uint64_t)b + (uint64_t)c + (uint64_t)d + e + f;
}

NOINLINE int greet(const char *who, int times) {
  KEEP();
  return who ? who[0] + times : times;
}

NOINLINE int weigh(const struct crate *crate) {
  KEEP();
  return crate->weight;
}

NOINLINE long fact(long n) {
  KEEP();
  long below = n < 2 ? 1 : fact(n - 1);
  KEEP(); /* keeps the recursion: one call, one return */
  return n < 2 ? 1 : n * below;
}

/* Inlined at each use: with the one in main three sites whose operands differ in place and size. */
static inline __attribute__((always_inline)) void move(int64_t from, int64_t to) {
  if (depot_move_semaphore) DTRACE_PROBE2(depot, move, from, to);
}

static NOINLINE void cell(const int64_t *cells, long i) {
  if (depot_cell_semaphore) DTRACE_PROBE2(depot, cell, i, cells[i]);
}

/* Without -fPIE this is SYMBOL(,index,8), base + index * scale otherwise. */
static NOINLINE void row(long i) {
  if (depot_row_semaphore) DTRACE_PROBE2(depot, row, i, grid[i]);
}

static NOINLINE void label(int kind, const char *text) {
  if (depot_label_semaphore) DTRACE_PROBE2(depot, label, kind, text);
}

/* Four instructions of known length: nop at 0 and 1, lea at 2 (inside it: 3), ret at 6. Returns 3 * its argument. */
__asm__(".text\n.globl landmark\n.type landmark, @function\nlandmark:\n"
        "\tnop\n\tnop\n\tlea (%rdi,%rdi,2), %rax\n\tret\n.size landmark, . - landmark\n");
extern long landmark(long n);

static NOINLINE void texts(void) {
  static char hundred[101], huge[2001];
  for (int i = 0; i < 100; i++) hundred[i] = (char)('a' + i % 26);
  for (int i = 0; i < 2000; i++) huge[i] = (char)('0' + i % 10);
  madvise((void *)cold.text, sizeof(cold.text), MADV_DONTNEED);
  label(0, "touched");
  label(1, cold.text);
  label(2, NULL);
  label(3, "");
  label(4, hundred);
  label(5, huge);
  label(6, "na\303\257ve caf\303\251 \342\200\223 \342\230\225");
  label(7, "say \"hi\" \\ 'there'");
  label(8, "two\nlines\tand a tab");
}

static NOINLINE void round_of(int id) {
  int zone = id * 7 % 10;
  int32_t delta = zone - 4;
  uint64_t weight = (uint64_t)price(id, zone);
  const char *item = items[id % 5];
  __asm__("" : "+r"(item)); /* a register, not base + index * scale: `cell` is there for that */
  if (depot_parcel_semaphore) DTRACE_PROBE5(depot, parcel, id, item, zone, weight, delta);
  uint8_t u8 = (uint8_t)(id * 37);
  int8_t s8 = (int8_t)(id * 37);
  uint16_t u16 = (uint16_t)(id * 1021);
  int16_t s16 = (int16_t)(id * 1021);
  uint32_t u32 = (uint32_t)id * 4000000007u;
  int32_t s32 = (int32_t)((uint32_t)id * 4000000007u);
  uint64_t u64 = (uint64_t)id * 0xF123456789ABCDEFull;
  int64_t s64 = (int64_t)((uint64_t)id * 0xF123456789ABCDEFull);
  if (depot_widths_semaphore) DTRACE_PROBE8(depot, widths, u8, s8, u16, s16, u32, s32, u64, s64);
  move(id, zone);
  if (id % 10 == 0) move(-1, 7);
  cell(grid, id % 16);
  row(id % 16);
  sign_of(delta);
  plain(id);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 40;
  volatile long touched = 0;
  for (int i = 0; i < 5; i++) touched += *(const volatile char *)items[i];
  for (int i = 0; i < 16; i++) grid[i] = (int64_t)i * i - 50;
  for (int id = 1; id <= rounds; id++) round_of(id);

  texts();
  stock = rounds * 2;
  low[2] = -5;
  if (depot_gauge_semaphore) DTRACE_PROBE2(depot, gauge, stock, low[2]);
  if (depot_fixed_semaphore) DTRACE_PROBE4(depot, fixed, 7, -7, 0x7ffffffffffffffeL, (unsigned char)200);
  if (depot_stray_semaphore) DTRACE_PROBE2(depot, stray, 1, (char *)8);
  if (depot_wide_semaphore) DTRACE_PROBE12(depot, wide, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
  if (depot_callback_semaphore) DTRACE_PROBE1(depot, callback, &price);
  if (depot_move_semaphore) DTRACE_PROBE2(depot, move, stock, low[2]);

  static const char world[] = "world";
  struct crate crate = {-1234, 50000, -3, 0, world};
  touched += greet("depot", 2) + greet(NULL, 3);
  touched += weigh(&crate);
  touched += (long)six(1000000007, -2, -3, -4, 0xFFFFFFFFFFFFFFFFull, 4000000000u);
  touched += fact(5);
  touched += landmark(14);
  outer(1);
  return 0;
}
