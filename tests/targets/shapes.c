/* shapes ROUNDS: calls `show` with one struct, the struct after it, an array of pointers to both, and a number. */
#include <stdlib.h>

enum color { RED, GREEN = 5, BLUE };

struct point {
  short x, y;
};

struct shape {
  int id;
  char name[8];
  struct point at;
  union {
    unsigned value;
    unsigned short half;
  } bits;
  struct {
    unsigned char low, high;
  };
  enum color color;
  unsigned on : 1, kind : 7, level : 20;
  int depth : 5;
  unsigned char grid[2][3];
  struct point corners[3];
  struct shape *next;
  int (*area)(struct shape *);
  const char *label;
  long tail[];
};

struct __attribute__((packed)) row {
  char tag;
  long number;
  unsigned short rest : 3, more : 11;
};

__attribute__((noinline, noclone)) void show(struct shape *shape, struct shape **all, long number, struct row *row) {
  __asm__ volatile("" ::"r"(shape), "r"(all), "r"(number), "r"(row) : "memory");
}

static int area(struct shape *shape) { return shape->id; }

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 1;
  struct shape *one = calloc(1, sizeof *one + 3 * sizeof(long)), *two = calloc(1, sizeof *two);
  *one = (struct shape){7, "square", {3, -4}, {0x10002}, {5, 6}, GREEN, 1, 100, 70000, -3,
    {{1, 2, 3}, {4, 5, 6}}, {{10, 11}, {12, 13}, {14, 15}}, two, area, "a label"};
  *two = (struct shape){8, "full8888", {-1, 1}, {9}, {0, 255}, BLUE, 0, 1, 2, 15,
    {{9, 8, 7}, {6, 5, 4}}, {{1, 2}, {3, 4}, {5, 6}}, 0, 0, "another"};
  for (long i = 0; i < 3; i++) one->tail[i] = 100 + i;
  struct shape *all[] = {one, two, 0};
  struct row row = {'r', 1L << 40, 5, 1000};
  for (long i = 0; i < rounds; i++) show(one, all, i, &row);
  return 0;
}
