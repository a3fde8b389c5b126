/* One day in a bakery: `bakery ORDERS`. The same orders every day, so that two tracers must see the same.

   USDT, provider "bakery", behind semaphores:
     order(id, item, pieces, cents)    an order came in
     sold_out(item, missing)           there was not enough of it: `missing` pieces short
   Functions: bake(kind, pieces) takes its time; price(kind, pieces) returns cents. */
#define _SDT_HAS_SEMAPHORES 1
#include <stdlib.h>
#include <sys/sdt.h>
#include <time.h>

#define SEMAPHORE(name) unsigned short name __attribute__((section(".probes"), used))
SEMAPHORE(bakery_order_semaphore);
SEMAPHORE(bakery_sold_out_semaphore);

enum { KINDS = 5 };
static const char *const items[KINDS] = {"rye bread", "pretzel", "croissant", "bun", "poppy roll"};
static const int cents_each[KINDS] = {420, 110, 190, 60, 145};
static const int microseconds_each[KINDS] = {90, 12, 25, 3, 8};
static int in_stock[KINDS] = {40, 300, 120, 900, 200};

static long long now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

__attribute__((noinline)) int bake(int kind, int pieces) {
  long long ready = now_ns() + 1000LL * microseconds_each[kind] * pieces;
  while (now_ns() < ready) {
  }
  return pieces;
}

__attribute__((noinline)) long price(int kind, int pieces) {
  long cents = (long)cents_each[kind] * pieces;
  __asm__ volatile("" : "+r"(cents)); /* keeps the call from being folded away */
  return pieces >= 6 ? cents - cents / 10 : cents;
}

int main(int argc, char **argv) {
  long orders = argc > 1 ? atol(argv[1]) : 500;
  unsigned long dice = 20240229; /* a linear congruential generator: the day is always the same */
  for (long id = 1; id <= orders; id++) {
    dice = dice * 6364136223846793005UL + 1442695040888963407UL;
    int kind = (int)(dice >> 33) % KINDS;
    int pieces = 1 + (int)(dice >> 48) % 8;
    const char *item = items[kind];
    if (in_stock[kind] < pieces) {
      int missing = pieces - in_stock[kind];
      if (bakery_sold_out_semaphore)
        DTRACE_PROBE2(bakery, sold_out, item, missing);
      in_stock[kind] += bake(kind, missing);
    }
    in_stock[kind] -= pieces;
    long cents = price(kind, pieces);
    if (bakery_order_semaphore)
      DTRACE_PROBE4(bakery, order, id, item, pieces, cents);
  }
  return 0;
}
