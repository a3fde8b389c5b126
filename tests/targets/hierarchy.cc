// A class hierarchy with templates and references; the program says what it counted.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#define NOINLINE __attribute__((noinline, noipa))

struct Base {
  int id = 9;
  virtual ~Base() {}
  virtual int area() const { return 0; }
};

namespace geo {
template <typename T> struct Box : Base {
  T w, h;
  Box(T w, T h) : w(w), h(h) {}
  NOINLINE int area() const override { return static_cast<int>(w * h); }
};
struct Plain { int x, y; };

NOINLINE int mix(const Box<int> &box, int &number, std::string text, const std::string &other, Plain plain,
                 std::unique_ptr<int> owned, bool yes) {
  return box.w + number + static_cast<int>(text.size() + other.size()) + plain.y + *owned + yes;
}
NOINLINE std::unique_ptr<int> made(int value, Plain &&plain) { return std::make_unique<int>(value + plain.x); }
}

struct Left { int id = 1; };
struct Right { int id = 2; int z = 3; };
struct Both : Left, Right { int own = 4; };
NOINLINE int twins(const Both &both) { return both.z + both.own; }

int main(int argc, char **argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 3, total = 0;
  for (int i = 0; i < rounds; i++) {
    geo::Box<int> box(i, 4);
    geo::Box<long> wide(2, i);
    int number = 10 + i;
    total += geo::mix(box, number, "hi", "there", {i, 5}, std::make_unique<int>(i), i % 2);
    total += box.area() + wide.area() + *geo::made(i, {1, 2}) + twins(Both());
  }
  std::printf("rounds %d sum %d %d\n", rounds, rounds * (rounds - 1) / 2, total != 0);
}
