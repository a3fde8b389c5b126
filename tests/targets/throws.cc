// throws [N]: an exception thrown in `thrower` crosses `middle` and is caught in `outer`, N times. Exits with 0 after
// printing how many were caught. A replaced return address in `middle` would end it by terminate().
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

__attribute__((noinline)) int outer(int n) {
  try {
    return middle(n);
  } catch (const Oops &oops) {
    return oops.value;
  }
}
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 5, caught = 0;
  for (int i = 0; i < rounds; i++) caught += outer(i) == i;
  std::printf("%d\n", caught);
  return caught == rounds ? 0 : 1;
}
