/* redzone N: calls leaf functions N times each that keep their argument in the red zone, below the stack pointer, across a
 * USDT probe, and prints how often it was another one behind it. The probe `redzone:both` is `nop; nop5`, as newer headers
 * write it, `redzone:ten` is `nop; nop10`, as the newest do; `redzone:alone` is a five-byte nop alone; `redzone:calls` is
 * one too, in a function that calls another. With a second argument it says "ready" and waits for a line, before its
 * calls and at its end. */
#include <stdio.h>
#include <stdlib.h>

#define NOP5 ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
#define NOP10 ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00\n"

#define SITE(name, nops)                                                                                               \
  "990: " nops                                                                                                         \
  ".pushsection .note.stapsdt, \"?\", \"note\"\n"                                                                      \
  ".balign 4\n"                                                                                                        \
  ".4byte 992f-991f, 994f-993f, 3\n"                                                                                   \
  "991: .asciz \"stapsdt\"\n"                                                                                          \
  "992: .balign 4\n"                                                                                                   \
  "993: .8byte 990b, _.stapsdt.base, 0\n"                                                                              \
  ".asciz \"redzone\"\n.asciz \"" name "\"\n.asciz \"8@%1\"\n"                                                         \
  "994: .balign 4\n"                                                                                                   \
  ".popsection\n"                                                                                                      \
  ".ifndef _.stapsdt.base\n"                                                                                           \
  ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"                                          \
  ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                                                                     \
  "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"                                                                \
  ".popsection\n"                                                                                                      \
  ".endif\n"

#define LEAF(name, nops)                                                                                               \
  __attribute__((noinline)) static long name(long value) {                                                             \
    long kept;                                                                                                         \
    __asm__ volatile("movq %1, -8(%%rsp)\n" SITE(#name, nops) "movq -8(%%rsp), %0\n"                                   \
                     : "=r"(kept) : "r"(value) : "memory");                                                            \
    return kept;                                                                                                       \
  }

LEAF(both, "nop\n" NOP5)
LEAF(ten, "nop\n" NOP10)
LEAF(alone, NOP5)

__attribute__((noinline)) static long calls(long value) {
  __asm__ volatile(SITE("calls", NOP5)::"r"(value), "r"(value));
  return labs(value) + (putchar('.') == EOF);
}

static void wait(int argc) {
  if (argc > 2) {
    puts("ready");
    fflush(stdout);
    getchar();
  }
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 1000, wrong = 0;
  wait(argc);
  for (long i = 0; i < rounds; i++) wrong += both(i) != i;
  for (long i = 0; i < rounds; i++) wrong += ten(i) != i;
  for (long i = 0; i < rounds; i++) wrong += alone(i) != i;
  for (long i = 0; i < 3; i++) calls(i);
  printf("\nwrong %ld\n", wrong);
  wait(argc);
  return 0;
}
