/* Lines whose number of executions is known; the tests name them by the text of the line, not by its number. */
#include <stdio.h>
#include <stdlib.h>

static long total;

static inline __attribute__((always_inline)) void add(long n)
{
    total += n; /* inlined three times */
    asm volatile("" ::: "memory");
}

__attribute__((noinline)) long order(long n)
{
    add(n);
    if (n % 3 == 0)
        add(n / 3); /* every third */
    return total; /* every order */
}

__attribute__((noinline)) long refund(long n)
{
    add(-n);
    return total;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 10;
    for (long i = 0; i < rounds; i++)
        order(i); /* the call */
    for (long i = 0; i < rounds; i++) {
        if (i % 5 == 0)
            refund(i);
    }
    printf("%ld\n", total);
    return 0;
}
