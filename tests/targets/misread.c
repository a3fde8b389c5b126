/* misread N: calls three functions N times each and prints how often one returned what it should not. Two of them begin
 * with an instruction that Linux takes for another when it is probed: `step_swap` with one that looks like nop, and
 * `step_vector` (where the processor has AVX) with one that looks like a short jump. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long step_swap(long a, long b, long c, long d, long result);
long step_vector(float value);
long step_plain(long value);

__asm__(".text\n"
        ".globl step_swap\n.type step_swap, @function\n"
        "step_swap: .byte 0x49, 0x90\nret\n" /* xchg %rax, %r8 */
        ".size step_swap, .-step_swap\n"
        ".globl step_vector\n.type step_vector, @function\n"
        "step_vector: .byte 0xc5, 0xf9, 0x7e, 0xc0\nret\n" /* vmovd %xmm0, %eax */
        ".size step_vector, .-step_vector\n"
        ".globl step_plain\n.type step_plain, @function\n"
        "step_plain: mov %rdi, %rax\nret\n"
        ".size step_plain, .-step_plain\n"
        ".section .note.GNU-stack, \"\", @progbits\n.text\n");

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 100, wrong = 0;
  int vectors = __builtin_cpu_supports("avx");
  for (long i = 1; i <= rounds; i++) {
    float value = (float)i;
    int bits;
    memcpy(&bits, &value, sizeof bits);
    wrong += step_swap(0, 0, 0, 0, i) != i;
    wrong += vectors && (int)step_vector(value) != bits;
    wrong += step_plain(i) != i;
  }
  printf("wrong %ld\n", wrong);
  return 0;
}
