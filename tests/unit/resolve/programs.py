"""Sources of the small programs that the tests build."""

PROBES_C = r"""
#include <sys/sdt.h>
#include <stdlib.h>
long table[16];
long counter = 7;
static int private_level = 3;
struct pair { int first, second; } pair = {1, 2};
static inline __attribute__((always_inline)) void hit(long number, const char *text)
{
    DTRACE_PROBE2(shop, order, number, text);
}
__attribute__((noinline)) int by_register(int x) { hit(x, "a"); return x + 1; }
__attribute__((noinline)) int by_stack(int x)
{
    volatile long far[40]; far[3] = x; hit(far[3], "b"); return (int)far[3];
}
__attribute__((noinline)) int constant(void) { DTRACE_PROBE3(shop, consts, 1, -16, 'x'); return 0; }
__attribute__((noinline)) int globals(void)
{
    DTRACE_PROBE3(shop, globals, counter, pair.second, private_level); private_level++; return 0;
}
__attribute__((noinline)) long indexed(long i) { DTRACE_PROBE1(shop, element, table[i]); return table[i]; }
int main(int argc, char **argv)
{
    return by_register(argc) + by_stack(argc) + constant() + globals() + (int)indexed(argc);
}
"""

SEMAPHORE_C = r"""
#define _SDT_HAS_SEMAPHORES 1
__extension__ unsigned short app_busy_semaphore __attribute__((unused)) __attribute__((section(".probes")));
__extension__ unsigned short app_idle_semaphore __attribute__((unused)) __attribute__((section(".probes")));
#include <sys/sdt.h>
int work(int x)
{
    if (__builtin_expect(app_busy_semaphore, 0)) STAP_PROBE1(app, busy, x);
    STAP_PROBE(app, idle);
    return x;
}
int main(int argc, char **argv) { return work(argc); }
"""

FUNCTIONS_C = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static __attribute__((noinline)) int helper_one(int x) { return x * 3 + getpid(); }
static __attribute__((noinline)) int helper_two(int x) { return helper_one(x) * 5; }
__attribute__((noinline)) int public_name(int x) { return helper_two(x) + 1; }
extern int other_name(int) __attribute__((alias("public_name")));
extern int _weak_name(int) __attribute__((alias("public_name"), weak));
static int fast_impl(int x) { return x + 1; }
static int slow_impl(int x) { return x + 2; }
static int (*choose(void))(int) { return getenv("SLOW") ? slow_impl : fast_impl; }
int chosen(int) __attribute__((ifunc("choose")));
int main(int argc, char **argv) { return public_name(argc) + chosen(argc) + (int)strlen(argv[0]); }
"""

LIBRARY_C = r"""
int apply(int (*function)(int), int value) { return function(value) + 1; }
int plain(int value) { return value * 2; }
int (*volatile hook)(int);
int tail(int value) { return hook(value); }
"""

THROWS_CC = r"""
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
__attribute__((noinline)) int thrower(int x) { if (x % 3 == 0) throw std::runtime_error("no"); return x; }
__attribute__((noinline)) int crossed(int x)
{
    int r = thrower(x) + 1; asm volatile("" :: "r"(r)); if (r > 50) { puts("big"); return r * 2; } return r;
}
__attribute__((noinline)) int leaf(int x) { return x * 3; }
__attribute__((noinline)) int tail(int x) { asm volatile("" : "+r"(x)); return thrower(x); }
__attribute__((noinline)) int choose(int x)
{
    int r = 0;
    switch (x) {
    case 0: r = thrower(1); break; case 1: r = thrower(2) + 7; break; case 2: r = thrower(4) * 3; break;
    case 3: r = thrower(5) - 9; break; case 4: r = thrower(7) ^ 3; break; case 5: r = thrower(8) | 64; break;
    default: r = 5;
    }
    asm volatile("" : "+r"(r)); return r;
}
__attribute__((noinline)) int indirect(int (*f)(int), int x) { asm volatile("" : "+r"(x)); return f(x); }
namespace shop {
struct Order {
    std::string item;
    __attribute__((noinline)) int price(int each) const { std::string t = item + "!"; return (int)t.size() * each; }
    __attribute__((noinline)) int price(long a, char b) { asm volatile(""); return thrower((int)a) + b; }
};
}
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1; long caught = 0; shop::Order order{"tea"};
    for (int i = 0; i < n; i++) {
        try { crossed(i); } catch (std::exception &) { caught++; }
        try { tail(i); } catch (std::exception &) { }
        choose(i % 7); leaf(i); order.price(i); order.price((long)1, 'x'); indirect(leaf, i);
    }
    fprintf(stderr, "caught %ld\n", caught);
    return 0;
}
"""

BY_HAND_C = r"""
long g_int;
void f(void)
{
    asm volatile("990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n"
                 ".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
                 "993: .8byte 990b\n.8byte 0\n.8byte 0\n"
                 ".asciz \"p\"\n.asciz \"q\"\n.asciz \"OPERAND\"\n994: .balign 4\n.popsection" ::: "memory");
    g_int++;
}
"""
