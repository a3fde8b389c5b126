/* Three parts of its time are in `much`, one in `little`; says how many nanoseconds of the processor each had. */
#include <stdio.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile long sum;

static long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

NOINLINE void much(void) {
    for (long i = 0; i < 450000000; i++)
        sum += i;
    sum++;
}

NOINLINE void little(void) {
    for (long i = 0; i < 150000000; i++)
        sum += i;
    sum++;
}

int main(int argc, char **argv) {
    long began = now();
    much();
    long between = now();
    little();
    if (argc == 1) // else it is quiet
        printf("%ld %ld\n", between - began, now() - between);
    (void)argv;
    return 0;
}
