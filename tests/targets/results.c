/* Functions of many types of results, which it prints, a line for each call. */
#include <stdbool.h>
#include <stdio.h>

enum color { RED = 1, GREEN, BLUE };
struct node { int v; struct node *next; };
struct pair { long a; int b; };
struct mixed { double x; long n; };
struct big { long a, b; int c[2]; };

static struct node nodes[2] = {{7, &nodes[1]}, {9, NULL}};

#define KEEP __attribute__((noipa))
KEEP int as_int(int n) { return n - 2; }
KEEP long as_long(int n) { return -((long)n << 33); }
KEEP signed char as_byte(int n) { return n - 2; }
KEEP short as_short(int n) { return n - 2; }
KEEP unsigned as_unsigned(int n) { return n - 2; }
KEEP bool as_bool(int n) { return n & 1; }
KEEP enum color as_color(int n) { return RED + n; }
KEEP struct node *as_node(int n) { return n & 1 ? NULL : nodes; }
KEEP double as_double(int n) { return n / 2.0; }
KEEP void as_nothing(int n) { nodes[0].v = n; }
KEEP struct pair as_pair(int n) { return (struct pair){n, -n}; }
KEEP struct mixed as_mixed(int n) { return (struct mixed){n / 2.0, -n}; }
KEEP struct big as_big(int n) { return (struct big){n, -n, {n + 1, n + 2}}; }

int main(void) {
    for (int n = 0; n < 3; n++) {
        printf("int %d\n", as_int(n));
        printf("long %ld\n", as_long(n));
        printf("byte %d\n", as_byte(n));
        printf("short %d\n", as_short(n));
        printf("unsigned %u\n", as_unsigned(n));
        printf("bool %d\n", as_bool(n));
        printf("color %s\n", (const char *[]){"RED", "GREEN", "BLUE"}[as_color(n) - RED]);
        printf("node %d\n", as_node(n) ? 9 : 0);
        as_double(n);
        as_nothing(7);
        struct pair pair = as_pair(n);
        printf("pair %ld %d\n", pair.a, pair.b);
        as_mixed(n);
        struct big big = as_big(n);
        printf("big %ld %ld %d %d\n", big.a, big.b, big.c[0], big.c[1]);
    }
}
