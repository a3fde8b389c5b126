/* What the benchmark traces: hits WHAT N RESULT [THREADS [KEYS [LENGTH]]]
 *
 * WHAT says what a hit is, in letters: u a USDT probe bench:hit, f a call of bench_hit, k the system call getppid; t its strings' pages are in
 * memory, c this program never touches them; m a struct stands where the string would; w wait first until somebody has attached. A hit has a number, counted
 * from 0 modulo KEYS (0: for ever), and one of four strings, in turn. RESULT gets a line: nanoseconds a hit by the
 * clock, by the processor's time of all threads, hits.
 */
#define _GNU_SOURCE
#define _SDT_HAS_SEMAPHORES 1
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 64
#define MOST_LENGTH 4096
#define CODE 128 /* bytes of a function that are looked at */
unsigned short bench_hit_semaphore __attribute__((section(".probes"), used));

static char warm[4][MOST_LENGTH + 1];
static const char *strings[4];
static struct inner { int pad, number; } inner[4] = {{9, 0}, {9, 1}, {9, 2}, {9, 3}};
static struct outer { long pad; struct inner *inner; } outer[4] = {{9, inner}, {9, inner + 1}, {9, inner + 2}, {9, inner + 3}};
static long hits_of_one, keys;
static int calls, enters_kernel;

/* Its first instruction is a nop: a probe there costs what one on a USDT probe costs. */
__attribute__((noinline, noclone)) void bench_hit(int number, const char *string) {
    __asm__ volatile("nop" : : "r"(number), "r"(string));
}

static void *hit(void *nothing) {
    long number = 0;
    for (long i = 0; i < hits_of_one; i++) {
        const char *string = strings[i & 3];
        int low = (int)number;
        /* In a register, as a value; not at a base and an index, where ftrace cannot follow. */
        __asm__ volatile("" : "+r"(string), "+r"(low));
        if (enters_kernel)
            syscall(SYS_getppid);
        else if (calls)
            bench_hit(low, string);
        else
            DTRACE_PROBE2(bench, hit, low, string);
        if (++number == keys)
            number = 0;
    }
    return nothing;
}

static double now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

/* Until an instruction of hit or bench_hit is a breakpoint. Not for the semaphore, which some raise long before. */
static int wait_for_tracer(void) {
    const unsigned char *code[] = {(const unsigned char *)hit, (const unsigned char *)bench_hit};
    unsigned char own[2][CODE];
    struct timespec pause = {0, 1000000}, rest = {0, 200000000};
    memcpy(own[0], code[0], CODE);
    memcpy(own[1], code[1], CODE);
    for (double end = now(CLOCK_MONOTONIC) + 60e9; now(CLOCK_MONOTONIC) < end; nanosleep(&pause, 0))
        if (memcmp(own[0], code[0], CODE) || memcmp(own[1], code[1], CODE)) {
            nanosleep(&rest, 0); /* it may have more to do than to attach */
            return 1;
        }
    return 0;
}

/* Four strings in a page of a file, mapped alone so that no fault nearby brings it in; NULL where that fails. */
static const char *cold(void) {
    static const char text[32] = "alpha\0\0\0beta\0\0\0\0gamma\0\0\0delta";
    int file = memfd_create("cold", 0);
    if (file < 0 || write(file, text, sizeof text) != sizeof text)
        return 0;
    void *page = mmap(0, sizeof text, PROT_READ, MAP_SHARED, file, 0);
    return page == MAP_FAILED ? 0 : page;
}

/* The strings, of their own length or, if that is more, of `length` bytes. */
static int fill(int are_cold, size_t length) {
    static const char *const names[4] = {"alpha", "beta", "gamma", "delta"};
    const char *page = are_cold ? cold() : 0;
    for (int i = 0; i < 4; i++) {
        memset(warm[i], 'x', length);
        memcpy(warm[i], names[i], strlen(names[i]));
        strings[i] = are_cold ? page + i * 8 : warm[i];
    }
    return are_cold && !page;
}

int main(int count, char **words) {
    if (count < 4)
        return 2;
    const char *what = words[1];
    int threads = count > 4 ? atoi(words[4]) : 1;
    long length = count > 6 ? atol(words[6]) : 0;
    pthread_t ids[MOST_THREADS];
    keys = count > 5 ? atol(words[5]) : 0;
    if (threads < 1 || threads > MOST_THREADS || length < 0 || length > MOST_LENGTH)
        return 2;
    hits_of_one = atol(words[2]) / threads;
    calls = strchr(what, 'f') != 0;
    enters_kernel = strchr(what, 'k') != 0;
    if (strchr(what, 'w') && !wait_for_tracer())
        return 3;
    if (fill(strchr(what, 'c') != 0, (size_t)length))
        return 7;
    for (int i = 0; i < 4 && strchr(what, 'm'); i++)
        strings[i] = (const char *)&outer[i];
    double clock = now(CLOCK_MONOTONIC), spent = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 1; i < threads; i++)
        if (pthread_create(&ids[i], 0, hit, 0))
            return 4;
    hit(0);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], 0);
    clock = now(CLOCK_MONOTONIC) - clock;
    spent = now(CLOCK_PROCESS_CPUTIME_ID) - spent;
    double hits = (double)hits_of_one * threads;
    FILE *result = fopen(words[3], "w");
    if (!result)
        return 5;
    fprintf(result, "%.3f %.3f %.0f\n", hits ? clock / hits : 0, hits ? spent / hits : 0, hits);
    return fclose(result) ? 6 : 0;
}
