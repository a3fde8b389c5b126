#include <string>
#include <vector>
#include <map>
#include <cstdio>
#include <tuple>
struct Base { int base_id = 3; virtual ~Base() {} };
struct Cart : Base {
    long sum = 0; int count = 0; std::string owner = "ann";
    bool full : 1; unsigned kind : 3;
    __attribute__((noinline)) long add(const int &price, long &out, int n = 2) {
        long before = sum;
        sum += price * n;
        count++;
        out = sum;
        auto check = [this, before, &out](int limit) __attribute__((noinline)) {
            long delta = sum - before;
            int over = delta > limit;
            out += over;
            return over;
        };
        int result = check(price / 2);
        return before + result;
    }
};
namespace shop { static int visits = 5; 
template <typename T> __attribute__((noinline)) T most(const std::vector<T> &v) {
    T best = v[0];
    for (const T &x : v) {
        if (x > best)
            best = x;
    }
    visits++;
    return best;
} }
std::tuple<int, long> pair_of(int x) { return {x, x * 2L}; }
struct P { int a; short b; long c; };
__attribute__((noinline)) P make(int i) { P p{i, (short)(i + 1), i * 5L}; return p; }
int main(int argc, char **argv) {
    Cart cart; cart.full = true; cart.kind = 5;
    long out = 0;
    std::vector<int> v{4, 9, 2};
    std::vector<long> w{14, 9, 22};
    for (int i = 0; i < 4; i++) {
        long r = cart.add(i + 10, out);
        auto [a, b, c] = make(i);
        printf("%ld %d %d %ld\n", r, a, b, c);
        std::map<int, int> m{{i, 2}};
        for (auto &[k, val] : m) {
            val += k;
            printf("%d %d\n", k, val);
        }
    }
    auto [first, second] = pair_of(argc);
    printf("%d %ld %d %ld\n", shop::most(v), shop::most(w), first, second);
    return 0;
}
