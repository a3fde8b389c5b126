// Calls functions that libc implements once for each kind of processor, and one of its own that it chooses likewise,
// each as often as the argument says. With a second argument it says that it is loaded and waits for a line first.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __attribute__((noinline)) int one_way(int x) { return x + 1; }
static __attribute__((noinline)) int other_way(int x) { return x + 2; }
static volatile int other = OTHER_WAY;
static int (*choose(void))(int) { return other ? other_way : one_way; }
int chosen(int) __attribute__((ifunc("choose")));

static char from[5000], to[5000];

int main(int argc, char **argv)
{
    volatile size_t sink = 0;
    int n = atoi(argv[1]);
    if (argc > 2) {
        puts("ready");
        fflush(stdout);
        if (getchar() == EOF)
            return 1;
    }
    for (int i = 0; i < n; i++) {
        sink += strlen("zebra crossing");
        sink += strcmp("zebra crossing", argv[0]);
        memcpy(to, from, 4321);
        sink += chosen(i) + to[i % 5000];
    }
    return sink == 1;
}
