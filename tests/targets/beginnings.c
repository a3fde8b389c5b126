/* beginnings N: calls functions N times each, whose first instructions are of the kinds that a kernel may not probe, and
 * prints how often. With a second argument it says "ready" first, waits for a line, and says "done". Where the first
 * instruction of a function may not be executed by a program, nobody calls it. */
#include <stdio.h>
#include <stdlib.h>

long word;

#define FUNCTION(name, first)                                                                                          \
  ".globl " name "\n.type " name ", @function\n" name ": " first "\nmov $1, %eax\nret\n.size " name ", .-" name "\n"

__asm__(".text\n" FUNCTION("b_lock", "lock addq $1, word(%rip)")
            FUNCTION("b_nop10", ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0")
                FUNCTION("b_segment", ".byte 0x2e\nnop") FUNCTION("b_endbr", "endbr64")
                    FUNCTION("b_nop5", "nopl 0(%rax, %rax)") FUNCTION("b_push", "push %rbp\npop %rbp")
                        FUNCTION("b_load", "mov word(%rip), %rax") FUNCTION("x_in", "in %dx, %al")
                            FUNCTION("x_hlt", "hlt")
                                FUNCTION("x_int3", "int3") ".section .note.GNU-stack, \"\", @progbits\n.text\n");

long b_lock(void), b_nop10(void), b_segment(void), b_endbr(void), b_nop5(void), b_push(void), b_load(void);

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 100, calls = 0;
  if (argc > 2) {
    puts("ready");
    fflush(stdout);
    getchar();
  }
  for (long i = 0; i < rounds; i++)
    calls += b_lock() + b_nop10() + b_segment() + b_endbr() + b_nop5() + b_push() + b_load();
  printf("%ld calls, %ld of one\n", calls, word);
  if (argc > 2) {
    puts("done");
    fflush(stdout);
    getchar();
  }
  return 0;
}
