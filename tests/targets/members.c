/* Members that lie where most do not: bit fields across integers, text at the end of a struct, long arrays. The program
   says what they hold. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))
#define PACKED __attribute__((packed))

struct PACKED across { unsigned a : 3; unsigned b : 30; unsigned c : 7; uint64_t d : 56; int e : 9; char z; };
struct PACKED three { unsigned a : 20; int b : 4; };
struct PACKED five { uint64_t a : 33; unsigned char b : 7; };
struct PACKED mixed { unsigned short a : 9; short b : 11; unsigned char c : 5, d : 7; long e : 33; };
struct open { int n; char text[]; };
struct none { int n; char text[0]; };
struct one { int n; unsigned char text[1]; };
struct room { char name[8], names[2][8]; unsigned char bytes[8]; int four[2]; char text[200]; int numbers[129]; };
enum level { LOW = 1, HIGH = 200, HIGHEST = 40000 };

NOINLINE int bits(struct across *p, struct across v, struct three r, struct three *rp, struct five t, struct mixed *x) {
  printf("bits %u %u %u %llu %d %c\n", p->a, p->b, p->c, (unsigned long long)p->d, p->e, p->z);
  printf("value %u %u %u %llu %d %c\n", v.a, v.b, v.c, (unsigned long long)v.d, v.e, v.z);
  printf("short %u %d %u %d %llu %u\n", r.a, r.b, rp->a, rp->b, (unsigned long long)t.a, t.b);
  printf("mixed %u %d %u %u %lld\n", x->a, x->b, x->c, x->d, (long long)x->e);
  return 0;
}

NOINLINE int texts(struct open *a, struct none *b, struct one *c, struct room *r) {
  printf("texts %s %s %s\n", a->text, b->text, (char *)c->text);
  printf("room %.8s %.3s %.8s %s %s\n", r->name, r->name, (char *)r->bytes, r->text, r->text + 3);
  printf("parts %d %c %d %d\n", *(r->four + 1), *(r->name + 1), r->numbers[128], *(int *)r->numbers);
  printf("names %s %s\n", r->names[1], r->names[0]);
  printf("sizes %d %d %d %d\n", (int)sizeof r->name, (int)sizeof r->text, (int)sizeof r->numbers, (int)sizeof b->text);
  return 0;
}

NOINLINE int levels(enum level one, enum level other) {
  printf("levels %d %d %d %d\n", one == HIGH, other == HIGHEST, HIGH, HIGHEST);
  return one - other;
}

int main(void) {
  struct across across = {6, 0x2abcdef1, 99, 0xabcdef12345678, -200, 'q'};
  struct three three = {0xabcde, -3};
  struct five five = {0x1fedcba98, 101};
  struct mixed mixed = {511, -1000, 21, 99, -4000000000};
  struct open *open = calloc(1, 64);
  static struct room room = {"abcdefgh", {"one", "two"}, "ABCDEFGH", {7, 8}, "", {0}};
  strcpy(open->text, "flexible");
  memset(room.text, 'x', 150);
  room.numbers[0] = 11;
  room.numbers[128] = 12;
  bits(&across, across, three, &three, five, &mixed);
  texts(open, (void *)open, (void *)open, &room);
  levels(HIGH, HIGHEST);
}
