// throws [N]: an exception thrown in `thrower` crosses `middle` N times, and `tail` N times, and is caught in `outer`;
// another N times `middle` returns. Prints how many were caught, and exits with 0 if that is 2 N. A replaced return
// address in `middle`, or in `tail`, which ends in a jump and has no return of its own, would end it by terminate().
// `aside` ends in a jump through a pointer; nobody calls it without an argument below 0.
#include <cstdio>
#include <cstdlib>

struct Oops {
  int value;
};

extern "C" {
__attribute__((noinline)) int thrower(int n) {
  __asm__ volatile("" ::: "memory");
  if (n >= 0) throw Oops{n};
  return n;
}

__attribute__((noinline)) int middle(int n) {
  __asm__ volatile("" ::: "memory");
  return thrower(n) + 1;
}

__attribute__((noinline)) int tail(int n) {
  __asm__ volatile("" ::: "memory");
  return thrower(n);
}

int (*volatile anywhere)(int) = thrower;

__attribute__((noinline)) int aside(int n) {
  __asm__ volatile("" ::: "memory");
  return anywhere(n);
}

__attribute__((noinline)) int outer(int n) {
  try {
    return n % 2 ? middle(n) : tail(n);
  } catch (const Oops &oops) {
    return oops.value;
  }
}
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 5, caught = 0;
  for (int i = 0; i < 2 * rounds; i++) caught += outer(i) == i;
  for (int i = 1; i <= rounds; i++) outer(-2 * i + 1);
  if (rounds < 0) aside(rounds);
  std::printf("%d\n", caught);
  return caught == 2 * rounds ? 0 : 1;
}
