// Random trees of calls in three threads: recursion, exceptions, longjmp(), tail calls. Prints the tree of each thread
// as `tracer flow` does, but for the times. `flows SEED`. With another word it calls `calm` again and again instead.
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <pthread.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

struct Node { std::string call, end; bool tail = false; std::vector<std::unique_ptr<Node>> inside; };
struct Own { uint64_t random; Node top; std::vector<Node *> open; long budget; };
static thread_local Own *own;
static long seed;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static unsigned chance(unsigned of)
{
    own->random = own->random * 6364136223846793005u + 1442695040888963407u;
    return (own->random >> 33) % of;
}

__attribute__((noinline)) static void begin(const char *name, long n, const void *to = nullptr, bool tail = false)
{
    char text[99];
    snprintf(text, sizeof text, to ? "%s(n=%ld, to=%p)" : "%s(n=%ld)", name, n, to);
    auto &inside = own->open.empty() ? own->top.inside : own->open.back()->inside;
    inside.emplace_back(new Node{text, "", tail, {}});
    own->open.push_back(inside.back().get());
}

__attribute__((noinline)) static void end(long result)
{
    do {
        own->open.back()->end = "= " + std::to_string(result);
        own->open.pop_back();
    } while (!own->open.empty() && own->open.back()->tail);
}

__attribute__((noinline)) static void left(size_t depth, const char *why)
{
    for (; own->open.size() > depth; own->open.pop_back()) own->open.back()->end = why;
}

#define PROBED extern "C" __attribute__((noinline, noclone))
#define KEPT(x) __asm__ volatile("" : "+r"(x) : : "memory")
static long act(long n);
PROBED long f_root(long n);
PROBED long f_leaf(long n) { begin("f_leaf", n); long r = n + 7; end(r); KEPT(r); return r; }
PROBED long f_goal(long n) { begin("f_goal", n); long r = n > 0 ? act(n - 1) : 3; end(r); KEPT(r); return r; }
PROBED long f_tails(long n) { begin("f_tails", n, nullptr, true); return f_goal(n - 1); }
PROBED long f_odd(long n);
PROBED long f_even(long n) { begin("f_even", n); long r = n > 0 ? f_odd(n - 1) : act(0); end(r); KEPT(r); return r; }
PROBED long f_odd(long n) { begin("f_odd", n); long r = n > 0 ? f_even(n - 1) : act(0); end(r); KEPT(r); return r; }
PROBED long f_node(long n)
{
    begin("f_node", n);
    long r = n;
    for (int count = chance(4); count > 0; count--) r += act(n - 1);
    end(r);
    KEPT(r);
    return r;
}
PROBED long f_throws(long n)
{
    begin("f_throws", n);
    long r = act(n - 1);
    if (chance(2)) throw 1;
    r += n > 0 ? f_throws(n - 1) : 0;
    end(r);
    KEPT(r);
    return r;
}
PROBED long f_jumps(long n, void *to)
{
    begin("f_jumps", n, to);
    long r = act(n - 1);
    if (chance(2)) longjmp(*(jmp_buf *)to, 1);
    r += n > 0 ? f_jumps(n - 1, to) : 0;
    end(r);
    KEPT(r);
    return r;
}

__attribute__((noinline)) static long act(long n)
{
    size_t depth = own->open.size();
    volatile long r = 1;
    if (n <= 0 || own->budget-- <= 0) return 1;
    switch (chance(7)) {
    case 0: r = f_node(n); break;
    case 1: r = f_even(n); break;
    case 2:
        try { r = f_throws(n); } catch (int) { left(depth, "left by an exception"); }
        break;
    case 3: {
        jmp_buf here;
        if (!setjmp(here)) r = f_jumps(n, &here);
        else left(depth, "left by longjmp()");
        break;
    }
    case 4: r = f_tails(n); break;
    case 5: r = f_leaf(n); break;
    case 6: r = f_root(n - 1); break;
    }
    return r;
}

static thread_local jmp_buf out;
PROBED long f_root(long n)
{
    begin("f_root", n);
    long r = 0;
    for (int count = 0; count < 6; count++) {
        if (own->open.size() == 1) own->budget = 20;
        r += act(n);
    }
    if (n == 7) throw 1;
    if (n == -8) longjmp(out, 1);
    end(r);
    KEPT(r);
    return r;
}

__attribute__((noinline)) static void further_in(long n)
{
    volatile char above[999];
    above[0] = 0;
    f_root(n + above[0]);
}

PROBED long part(long n) { long r = 2 * n; KEPT(r); return r; }
PROBED long calm(long n) { long r = part(n) + 1; usleep(20000); KEPT(r); return r; }

static void show(const Node &node, int depth)
{
    int tid = syscall(SYS_gettid);
    if (node.inside.empty()) {
        printf("own %d  %*s%s %s\n", tid, 2 * depth, "", node.call.c_str(), node.end.c_str());
        return;
    }
    printf("own %d  %*s%s {\n", tid, 2 * depth, "", node.call.c_str());
    for (auto &each : node.inside) show(*each, depth + 1);
    printf("own %d  %*s} %s\n", tid, 2 * depth, "", node.end.c_str());
}

static void *work(void *argument)
{
    Own mine = {};
    mine.random = seed * 1000003 + (long)argument;
    own = &mine;
    f_root(5);
    f_leaf(1);  // is not below it
    try { f_root(7); } catch (int) { left(0, "left by an exception"); }
    f_leaf(1);
    further_in(6);
    if (!setjmp(out)) f_root(-8);
    else left(0, "left by longjmp()");
    f_leaf(1);
    further_in(3);
    pthread_mutex_lock(&printing);
    for (auto &each : mine.top.inside) if (each->call != "f_leaf(n=1)") show(*each, 0);
    pthread_mutex_unlock(&printing);
    return nullptr;
}

int main(int count, char **words)
{
    seed = count > 1 ? atol(words[1]) : 1;
    for (long n = 0; count > 2; n++) calm(n);
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], nullptr, work, (void *)i);
    for (pthread_t each : threads) pthread_join(each, nullptr);
    return 0;
}
