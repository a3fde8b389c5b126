// Random trees of calls: recursion, exceptions, longjmp(), signals on a stack of their own, fibers, threads. Prints each
// call that returned, in the order of their returns in each thread: its number, its result, how long it took by a clock
// in it and by one around it, how many calls of its thread had returned as it began, how many were entered inside it,
// and whether a fiber took its turn meanwhile. At the end how many returned, and how many were left.
// `call_trees SEED TREES [plain]`: plain ones only call and recurse.
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <pthread.h>
#include <time.h>
#include <ucontext.h>
#include <vector>

constexpr int THREADS = 3, FIBERS = 4, DEEPEST = 12, MOST = 80;
constexpr size_t STACK = 128 << 10;

struct Returned { long id, result, inside, around, before, entered, turns; };
struct Place { jmp_buf at; };

struct Own {  // of one thread
    uint64_t random;
    long next, entered, budget, turns;
    int depth, tries, quiet;
    std::vector<Place *> jumps;
    std::vector<Returned> returned;
    ucontext_t main, fibers[FIBERS];
    char *stacks[FIBERS];
    bool busy[FIBERS];
    int on;  // the fiber that runs, -1 for none
};
static thread_local Own *own;
static std::mutex printing;
static bool plain;
static long trees, seed, total_entered, total_returned;

static unsigned chance(unsigned of)
{
    own->random = own->random * 6364136223846793005u + 1442695040888963407u;
    return (own->random >> 33) % of;
}

static long now()
{
    timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

extern "C" long node(long id);
extern "C" long other(long id);
static long call()
{
    long id = own->next++, begun = now();
    long result = chance(2) ? node(id) : other(id);
    own->returned.back().around = now() - begun;
    return result;
}
static long result_of(long id) { return (id * 2654435761u) % 1000003; }

static void fiber(int number)
{
    call();
    own->busy[number] = false;
    own->on = -1;
    setcontext(&own->main);
}

// What a stack has of its own: exceptions and jumps do not leave it.
struct Kept { int depth, tries, quiet; std::vector<Place *> jumps; };
static Kept keep() { return {own->depth, own->tries, own->quiet, own->jumps}; }
static void put(Kept &kept)
{
    own->depth = kept.depth, own->tries = kept.tries, own->quiet = kept.quiet, own->jumps = kept.jumps;
}

static void run_fiber(int number, bool begin)
{
    Kept kept = keep();
    if (begin) own->tries = 0, own->jumps.clear(), own->busy[number] = true;
    own->on = number;
    own->turns++;
    swapcontext(&own->main, &own->fibers[number]);
    own->turns++;
    own->on = -1;
    put(kept);
}

static void yield()
{
    Kept kept = keep();
    int number = own->on;
    swapcontext(&own->fibers[number], &own->main);
    own->on = number;
    put(kept);
}

static void on_signal(int)
{
    Kept kept = keep();
    own->tries = 0, own->jumps.clear(), own->quiet++;
    call();
    put(kept);
}

static void act()
{
    int depth = own->depth, tries = own->tries, quiet = own->quiet;
    size_t jumps = own->jumps.size();
    switch (int kind = chance(9); plain ? 0 : kind) {
    case 0: case 1: call(); break;
    case 2:
        try { own->tries++; call(); } catch (int) { }
        break;
    case 3: {
        Place place;
        own->jumps.push_back(&place);
        if (!setjmp(place.at)) call();
        break;
    }
    case 4: if (tries && chance(3) == 0) throw 1; break;
    case 5: if (jumps && chance(3) == 0) longjmp(own->jumps.back()->at, 1); break;
    case 6: if (!quiet && own->on < 0) raise(SIGUSR1); break;
    case 7:
        if (own->on >= 0 && !quiet) yield();
        break;
    case 8:
        if (own->on < 0 && !quiet) {
            int number = chance(FIBERS);
            bool begin = !own->busy[number];
            if (begin) {
                ucontext_t &fresh = own->fibers[number];
                getcontext(&fresh);
                fresh.uc_stack.ss_sp = own->stacks[number], fresh.uc_stack.ss_size = STACK;
                makecontext(&fresh, reinterpret_cast<void (*)()>(fiber), 1, number);
            }
            run_fiber(number, begin);
        }
        break;
    }
    own->depth = depth, own->tries = tries, own->quiet = quiet, own->jumps.resize(jumps);
}

static long within(long id)
{
    long begun = now(), before = own->returned.size(), entered = ++own->entered, turns = own->turns;
    own->depth++;
    for (int left = chance(5); left > 0 && own->depth < DEEPEST && own->budget > 0; left--, own->budget--) act();
    own->depth--;
    long inside = now() - begun;
    own->returned.push_back({id, result_of(id), inside, 0, before, own->entered - entered, own->turns - turns});
    return result_of(id);
}

#define PROBED extern "C" __attribute__((noinline, noclone))
PROBED long node(long id) { long r = within(id); __asm__ volatile("" : "+r"(r)); return r; }
PROBED long other(long id) { long r = within(id); __asm__ volatile("" : "+r"(r)); return r; }

static void *work(void *argument)
{
    long thread = (long)argument;
    Own mine = {};
    own = &mine;
    for (char *&each : mine.stacks) each = (char *)malloc(STACK);
    stack_t handling = {};
    handling.ss_sp = malloc(handling.ss_size = STACK);
    sigaltstack(&handling, nullptr);
    mine.on = -1, mine.next = thread * 100000000 + 1;
    for (long tree = thread; tree < trees; tree += THREADS) {
        mine.random = seed * 1000003 + tree * 7919 + 1;
        mine.budget = MOST, mine.depth = mine.tries = mine.quiet = 0, mine.jumps.clear();
        for (int i = 0; i < 6; i++) {
            mine.depth = mine.tries = mine.quiet = 0;
            call();
        }
        mine.budget = 0;  // what waits goes on to its end
        for (int i = 0; i < FIBERS; i++) while (mine.busy[i]) run_fiber(i, false);
    }
    std::lock_guard<std::mutex> lock(printing);
    for (const Returned &each : mine.returned) 
        printf("own %ld %ld %ld %ld %ld %ld %d\n", each.id, each.result, each.inside, each.around, each.before,
               each.entered, each.turns > 0);
    total_entered += mine.entered, total_returned += mine.returned.size();
    return nullptr;
}

int main(int count, char **words)
{
    seed = count > 1 ? atol(words[1]) : 1, trees = count > 2 ? atol(words[2]) : 10;
    plain = count > 3;
    struct sigaction action = {};
    action.sa_handler = on_signal, action.sa_flags = SA_ONSTACK | SA_NODEFER;
    sigaction(SIGUSR1, &action, nullptr);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], nullptr, work, (void *)i);
    for (pthread_t each : threads) pthread_join(each, nullptr);
    printf("all %ld %ld\n", total_returned, total_entered - total_returned);
    return 0;
}
