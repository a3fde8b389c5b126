/* Adds an order in main, and seven in a thread: the program of the pages about watchpoints. */
#include <pthread.h>
#include <stddef.h>

static struct {
    long orders, cents, last[2];
} tally;

static __attribute__((noinline)) void add(long cents) {
    tally.orders++;
    tally.cents += cents;
    tally.last[tally.orders & 1] = cents;
}

static void *shop(void *most) {
    for (long cents = 0; cents < (long)most; cents++)
        add(cents);
    return NULL;
}

int main(void) {
    pthread_t thread;
    add(100);
    if (pthread_create(&thread, NULL, shop, (void *)7) == 0)
        pthread_join(thread, NULL);
    return tally.last[0] < 0;
}
