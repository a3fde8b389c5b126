/* What the benchmark traces where there are many sites: many ROUNDS RESULT
 *
 * Calls each of its functions, which are in another file and many, ROUNDS times. RESULT gets a line as in hits.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern void (*const functions[])(void);
extern const long functions_count;

static double now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    long rounds = atol(words[1]);
    double clock = now(CLOCK_MONOTONIC), spent = now(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 0; i < rounds; i++)
        for (long j = 0; j < functions_count; j++)
            functions[j]();
    clock = now(CLOCK_MONOTONIC) - clock;
    spent = now(CLOCK_PROCESS_CPUTIME_ID) - spent;
    double hits = (double)rounds * functions_count;
    FILE *result = fopen(words[2], "w");
    if (!result)
        return 5;
    fprintf(result, "%.3f %.3f %.0f\n", hits ? clock / hits : 0, hits ? spent / hits : 0, hits);
    return fclose(result) ? 6 : 0;
}
