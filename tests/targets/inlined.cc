// A method and a template that are inlined: `inlined N` prints how often each was called, and the prices together.
#include <cstdio>
#include <cstdlib>

static volatile long sink;
static long adds, prices, muls;

namespace shop {
struct Cart {
    long total = 0;
    __attribute__((always_inline)) inline long add(int price)
    {
        adds++;
        prices += price;
        total += price;
        sink += price;
        return total;
    }
    template <typename T> __attribute__((always_inline)) inline long mul(T by)
    {
        muls++;
        sink += by;
        return total * by;
    }
};
}

__attribute__((noinline)) long one(shop::Cart &cart, int n) { return cart.add(n) + cart.mul<int>(n); }

__attribute__((noinline)) long two(shop::Cart &cart, int n)
{
    long sum = cart.add(n * 2);
    if (n & 1)
        sum += cart.add(n + 7);
    return sum + cart.mul<long>(n);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 10, sum = 0;
    shop::Cart cart;
    for (int i = 0; i < rounds; i++)
        sum += one(cart, i) + two(cart, i);
    printf("add %ld %ld\nmul %ld\n", adds, prices, muls);
    return sum == 1;
}
