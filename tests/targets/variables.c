/* Variables of each kind, on lines that the tests name by their comments. */
#include <stdlib.h>
#include <sys/sdt.h>

struct item {
    int id;
    char name[16];
    struct item *next;
    unsigned kind : 3, rank : 5;
};
enum colour { RED, GREEN = 5 };
static int sold;
static volatile double kept;

static inline __attribute__((always_inline)) void sell(int count, struct item *what)
{
    sold += count * what->id; /* sell */
    asm volatile("" ::: "memory");
}

__attribute__((noinline)) int price(struct item *it, int n, enum colour c)
{
    int total = 0; /* first */
    static int calls;
    calls++; /* called */
    for (int i = 0; i < n; i++) {
        int k = i * it->id;
        total += k; /* add */
        {
            int total = k + 100;
            sold += total; /* inner */
        }
    }
    sell(n, it);
    sell(total, it->next ? it->next : it);
    double rate = total * 1.5;
    DTRACE_PROBE2(shop, priced, total, n);
    if (c == GREEN)
        kept += rate;
    return total + sold; /* end */
}

struct point { short x, y; };

__attribute__((noinline)) long mix(int a, unsigned char b)
{
    struct point p = { (short)(a * 2), 4 };
    char word[8] = "ok";
    int few[3] = { a, b, 9 };
    enum colour c = GREEN;
    asm volatile("" :: "r"(&p), "r"(word), "r"(few) : "memory");
    return p.x + word[0] + few[1] + (long)c; /* mixed */
}

int main(int argc, char **argv)
{
    struct item one = { 3, "apple", NULL, 5, 17 };
    struct item two = { 5, "pear", &one, 2, 3 };
    long rounds = argc > 1 ? atol(argv[1]) : 3, sum = 0;
    for (long r = 0; r < rounds; r++) {
        sum += price(r & 1 ? &one : &two, (int)(3 + r % 5), r % 3 == 2 ? GREEN : RED);
        sum += mix((int)r, 200);
    }
    return sum == 1;
}
