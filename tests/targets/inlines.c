/* A function that is called through two that are inlined. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int leaf(int k) { return printf("%d\n", k); }

static inline __attribute__((always_inline)) int inner(int k) {
    int a = leaf(k + 1);
    return a + 1;
}

static inline __attribute__((always_inline)) int middle(int k) {
    return inner(k * 2) + 3;
}

__attribute__((noinline)) int outer(int k) {
    int r = middle(k);
    return r + 1;
}

int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < atoi(argv[1]); i++)
        sum += outer(i);
    return sum == argc;
}
