/* orders [ROUNDS [say]]: what the suite of cases traces: each round is one order, handed through probes and functions whose
 * arguments have every kind of type. With `say` it prints what it hands on, so that its own words are the truth:
 *   hit KIND NAME ARG...      of each probe and function, and `return` of each function, in order
 *   at ADDRESS BYTES          the memory that its pointers lead to, before each round's first hit
 * What a probe is handed lies in the registers of a call, so that both can be laid out again without a kernel. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>

#define NOINLINE __attribute__((noinline, noclone, noipa))

enum state { OPEN = 1, PAID, SENT = 7 };

struct item {
  int32_t sku;
  uint8_t grams[4];
  char name[12];
  struct item *next;
};

struct point {
  int16_t x, y;
};

struct order {
  int32_t id;
  int16_t delta;
  uint16_t port;
  char code[8];
  uint32_t urgent : 1, zone : 3, lane : 12;
  enum state state;
  union {
    uint32_t word;
    uint8_t part[4];
  } tag;
  int32_t lines[4];
  struct item *first;
  const char *note;
  struct point at[2];
  uint64_t total;
  _Bool gift;
};

static struct {
  struct order order;
  struct item items[3];
  char notes[64], name[16];
  uint8_t bytes[24];
} all __attribute__((aligned(4096)));

int32_t stock = 40;
static int loud;

static void say(const char *kind, const char *name, int count, const uint64_t *args) {
  if (!loud) return;
  printf("hit %s %s", kind, name);
  for (int i = 0; i < count; i++) printf(" %" PRIu64, args[i]);
  printf("\n");
}
#define SAY(kind, name, ...) \
  say(kind, name, sizeof((uint64_t[]){__VA_ARGS__}) / 8, (uint64_t[]){__VA_ARGS__})
#define U(x) ((uint64_t)(x))

static void dump(void) {
  if (!loud) return;
  printf("at %" PRIu64 " ", U(&all));
  for (size_t i = 0; i < sizeof all; i++) printf("%02x", ((uint8_t *)&all)[i]);
  printf("\n");
}

static NOINLINE void placed(int32_t id, struct order *order, const char *note) {
  DTRACE_PROBE3(orders, placed, id, order, note);
}

static NOINLINE void small(int8_t a, uint8_t b, int16_t c, uint16_t d) { DTRACE_PROBE4(orders, small, a, b, c, d); }

static NOINLINE void large(int32_t a, uint32_t b, int64_t c, uint64_t d) { DTRACE_PROBE4(orders, large, a, b, c, d); }

static NOINLINE void raw(const uint8_t *bytes, uint32_t length) { DTRACE_PROBE2(orders, raw, bytes, length); }

NOINLINE int64_t twice(int64_t n) {
  __asm__ volatile("");
  return 2 * n;
}

NOINLINE int64_t pack(struct order *order, int32_t count, const char *note, uint64_t wide, int8_t grade, uint16_t port) {
  int64_t made = twice(order->id) + count + note[0] + (int64_t)wide + grade + port;
  __asm__ volatile("" ::: "memory");
  return made;
}

NOINLINE struct item *pick(struct item *item, int32_t left) {
  __asm__ volatile("" ::: "memory");
  return left ? item->next : item;
}

static const char *const NOTES[] = {"first of all", "", "two\twords\n", "caf\303\251 \"q\"", "a note that is rather long, for a note"};

static void make(int i) {
  static const enum state states[] = {OPEN, PAID, SENT};
  struct order *order = &all.order;
  snprintf(all.notes, sizeof all.notes, "%s", NOTES[(i - 1) % 5]);
  snprintf(all.name, sizeof all.name, "order-%d", i);
  for (int k = 0; k < 3; k++) {
    struct item *item = &all.items[k];
    *item = (struct item){100 * i + k, {(uint8_t)(i + k), 2, 250, 255}, "", k < 2 ? &all.items[k + 1] : NULL};
    snprintf(item->name, sizeof item->name, "item %d.%d", i, k);
  }
  *order = (struct order){.id = i, .delta = (int16_t)(i % 2 ? -i : 10 * i), .port = 0x1f90, .urgent = i % 2, .zone = i % 8,
                          .lane = 4000 + i, .state = states[(i - 1) % 3], .tag.word = 0x01020304u * (uint32_t)i,
                          .lines = {i, -i, i * i, 1 << i % 31}, .first = all.items, .note = all.notes,
                          .at = {{(int16_t)i, (int16_t)-i}, {300, -300}}, .total = UINT64_C(1) << (40 + i % 20), .gift = i % 3 == 0};
  memcpy(order->code, "AB-0000", 8);
  order->code[6] = (char)('0' + i % 10);
  for (int k = 0; k < 24; k++) all.bytes[k] = (uint8_t)(k * 37 * i);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 3;
  loud = argc > 2 && !strcmp(argv[2], "say");
  for (int i = 1; i <= rounds; i++) {
    struct order *order = &all.order;
    make(i);
    dump();
    SAY("usdt", "placed", U(i), U(order), U(all.notes));
    placed(i, order, all.notes);
    int8_t a = (int8_t)(i - 3);
    uint8_t b = (uint8_t)(253 + i);
    int16_t c = (int16_t)(-1000 * i);
    uint16_t d = (uint16_t)(65530 + i);
    SAY("usdt", "small", U(a), U(b), U(c), U(d));
    small(a, b, c, d);
    int32_t e = INT32_MIN + i;
    uint32_t f = UINT32_MAX - (uint32_t)i;
    int64_t g = -((int64_t)i << 40);
    uint64_t h = UINT64_C(1) << (60 + i % 3);
    SAY("usdt", "large", U(e), U(f), U(g), h);
    large(e, f, g, h);
    SAY("usdt", "raw", U(all.bytes), U(4 + 4 * (i % 5)));
    raw(all.bytes, (uint32_t)(4 + 4 * (i % 5)));
    SAY("call", "pack", U(order), U(5 * i), U(all.name), h, U((int8_t)-i), U(d));
    SAY("call", "twice", U(i));
    SAY("return", "twice", U(2 * i));
    int64_t made = pack(order, 5 * i, all.name, h, (int8_t)-i, d);
    SAY("return", "pack", U(made));
    SAY("call", "pick", U(all.items), U(i % 2));
    struct item *picked = pick(all.items, i % 2);
    SAY("return", "pick", U(picked));
    stock -= i;
  }
  return 0;
}
