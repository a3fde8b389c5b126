/* Functions whose parameters have all kinds of types; the program says what it passed. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noipa))

enum colour { RED, GREEN = 5, BLUE };
enum sign { MINUS = -1, PLUS = 1 };
typedef unsigned int u32;
typedef struct node node_t;
struct inner { int16_t s; char name[8]; };
struct node {
  int v;
  struct node *next;
  struct inner in;
  unsigned low : 3, high : 5;
  enum colour c;
  union { int i; u32 u; };
  unsigned char bytes[4];
};
typedef struct { int q; } box_t;
struct small { int a, b; };
struct odd { char text[11]; };
struct mid { int64_t a; char b; };
struct big { int64_t a[5]; };
struct mixed { double d; int64_t l; };

NOINLINE int64_t take(int a, struct node *n, const char *s, enum colour c, u32 u, bool b) {
  return a + n->v + s[0] + c + u + b;
}

NOINLINE int64_t more(signed char c, node_t *n, char ch, enum sign e, short sh, box_t *t, int64_t seventh, uint8_t eighth) {
  return c + n->v + ch + e + sh + t->q + seventh + eighth;
}

NOINLINE int64_t pass(struct small s, struct mid m, struct big g, struct odd o, int after) {
  return s.a + s.b + m.a + m.b + g.a[4] + o.text[0] + after;
}

NOINLINE int64_t floats(double d, int i, struct mixed m, float f, int j) { return (int64_t)(d + i + m.d + f + j); }

NOINLINE struct big make(int64_t i) {
  struct big made = {{i, i, i, i, i}};
  return made;
}

NOINLINE int none(void) { return 3; }

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 3;
  int64_t total = 0, sum = 0;
  struct node second = {7, NULL, {3, "two"}, 1, 2, BLUE, {4}, {1, 2, 3, 4}};
  struct node first = {42, &second, {9, "one"}, 5, 17, GREEN, {-1}, {9, 8, 7, 6}};
  box_t box = {12};
  for (int i = 0; i < rounds; i++) {
    first.next->v = i;
    sum += i;
    total += take(-i, &first, "hello", i % 2 ? BLUE : RED, 4000000000u, i % 3 == 0);
    total += more(-2, &first, 'x', MINUS, -5, &box, INT64_C(1) << 40, 200);
    total += pass((struct small){i, 2}, (struct mid){3, 4}, (struct big){{5, 6, 7, 8, i}}, (struct odd){"0123456789"}, 13);
    total += floats(1.5, i, (struct mixed){0.5, i}, 2.5f, -i);
    total += make(i).a[0] + none();
  }
  printf("rounds %d sum %lld %d\n", rounds, (long long)sum, total != 0);
}
