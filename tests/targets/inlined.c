/* Functions that are inlined, as they are at -O2: `inlined N` prints how often each was called and the sum of what it was
 * given. */
#include <stdio.h>
#include <stdlib.h>

static volatile long sink;
static long calls[5], sums[5];

static inline __attribute__((always_inline)) long leaf(long n, int unused)
{
    calls[0]++;
    sums[0] += n;
    sink += n;
    return n * 3 + unused * 0;
}

static inline __attribute__((always_inline)) long nest(long n)
{
    calls[1]++;
    sums[1] += n;
    return leaf(n + 1, 0) + 1;
}

/* It has code of its own too. */
long both(long n)
{
    calls[2]++;
    sums[2] += n;
    sink ^= n;
    return n + 7;
}

/* Compilers split it: its beginning is inlined, and the rest is called. */
static long split(long n)
{
    calls[3]++;
    sums[3] += n;
    if (n % 3)
        return n;
    for (int i = 0; i < 10; i++) {
        sink += n * i;
        sink ^= i;
        printf("%s", "");
        sink *= 3;
        sink |= 1;
        sink &= ~4;
    }
    return sink;
}

/* Compilers write the rounds out, so that it begins at several places. */
static inline __attribute__((always_inline)) void round_of(long n)
{
    calls[4]++;
    sums[4] += n;
    sink -= n;
}

__attribute__((noinline)) long one(long n) { return leaf(n, 1) + both(n) + split(n); }

__attribute__((noinline)) long two(long n) { return nest(n) + split(n + 1); }

__attribute__((noinline)) long first(long n) { return nest(n); }

__attribute__((noinline)) void rounds_of(long n)
{
    for (long i = 0; i < n % 4; i++)
        round_of(i);
}

int main(int argc, char **argv)
{
    long (*volatile indirect)(long) = both;
    long rounds = argc > 1 ? atol(argv[1]) : 10, sum = 0;
    for (long i = 0; i < rounds; i++) {
        sum += one(i) + two(i) + first(2 * i);
        rounds_of(i);
        if (i % 5 == 0)
            sum += indirect(i);
    }
    const char *names[] = { "leaf", "nest", "both", "split", "round_of" };
    for (int i = 0; i < 5; i++)
        printf("%s %ld %ld\n", names[i], calls[i], sums[i]);
    return sum == 1;
}
