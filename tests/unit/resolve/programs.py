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

NAMES_CC = r"""
#include <string>
#include <vector>
#define OWN __attribute__((noinline, noipa))
namespace { OWN int hidden(int x) { return x + 1; } struct Inner { OWN int get(int x) { return x; } }; }
template<class T> struct Cart {
    T v;
    OWN Cart(T x) : v(x) { } OWN ~Cart() { }
    OWN void add(T x) { v += x; } OWN int print() const { return (int)v; } template<class U> OWN U as(U u) { return u; }
    OWN operator bool() const { return v; } OWN operator T *() { return &v; } OWN T operator[](int) { return v; }
    OWN bool operator<(const Cart &o) const { return v < o.v; } OWN T operator()(T a, T b) { return a + b; }
    template<class U> OWN bool operator<<(U u) { return v < u; } OWN T operator*(T t) { return v * t; }
};
template<class T> OWN void f(T) { asm volatile(""); }
template<int N, bool B> OWN int num() { return N; }
OWN std::string named(std::string s) { return s; }
OWN int operator""_kg(unsigned long long n) { return (int)n; }
OWN int plain(char *) { return 1; }
OWN int plain(char const *) { return 2; }
OWN int sized(char const (&a)[4]) { return a[0]; }
struct __attribute__((abi_tag("v2"))) Tagged { int x; };
OWN Tagged tagged() { return {1}; }
struct Base { OWN virtual int go() { return 1; } OWN virtual ~Base() { } };
struct Other { OWN virtual int turn() { return 2; } long x; };
struct Both : Base, Other { OWN int turn() override { return 3; } OWN int go() override { return 4; } };
extern "C" OWN int pure_c(int x) { return x; }
static __attribute__((noinline)) int copied(int x, int y) { asm volatile(""); return x * y; }
__attribute__((noinline)) int split(int x) { if (x > 10) throw x; return x; }
int main(int argc, char **argv)
{
    Cart<int> a(1); Cart<long> b(2); Cart<unsigned char> u(3); int c = argc;
    for (int i = 0; i < 100; i++) a.add(i);
    for (int i = 0; i < 7; i++) c += a.print();
    b.add(1); c += b.print(); u.add(1); c += u.print();
    c += a.as<char>('c') + b.as<long>(3) + (bool)a + *(int *)a + a[1] + (a < a) + a(1, 2) + a * 2;
    c += (a << 1) + (a << 'c') + copied(c, 3) + copied(argc, 3) + split(c);
    f<int>(1); f(std::string("x")); num<3, true>(); num<-4, false>(); c += named("x").size() + 3_kg;
    c += plain((char *)0) + plain((char const *)0) + sized("abc") + tagged().x;
    auto first = [&](int x) OWN { return x + c; }; auto second = [](long x) OWN { return x; };
    Both d; Base *p = &d; Other *q = &d; asm volatile("" : "+r"(p), "+r"(q));
    c += first(1) + second(2) + p->go() + q->turn() + hidden(1) + Inner().get(2) + pure_c(1);
    std::vector<unsigned char> bytes; bytes.push_back(1); operator delete(operator new(8));
    return c == 12345;
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
