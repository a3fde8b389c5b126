/* Ten thousand functions, f1 to f10000, and four, g1 to g4, the first instruction of two of which, g2 and g4, kernels do
   not probe for its lock prefix. Written in assembly, for gcc takes half a minute for so much C.

   many ROUNDS STEP: calls each STEP-th f and all g, ROUNDS times.
   many: says "ready", and for each line that it reads does the same once with step 1, and says "done". */

#include <stdio.h>
#include <stdlib.h>

#ifndef N
#define N 10000
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

__asm__(
    ".altmacro\n"
    ".macro function name, first:vararg\n"
    ".globl \\name\n"
    ".type \\name, @function\n"
    ".pushsection .data.rel.ro, \"aw\"\n"
    ".quad \\name\n"
    ".popsection\n"
    "\\name:\n"
    "\\first\n"
    "push %rbp\n"
    "pop %rbp\n"
    "ret\n"
    ".size \\name, . - \\name\n"
    ".endm\n"
    ".macro numbered number\n"
    "function f\\number\n"
    ".endm\n"
    ".data\n"
    "shared: .quad 0\n"
    ".pushsection .data.rel.ro, \"aw\"\n"
    ".balign 8\n"
    "all:\n"
    ".popsection\n"
    ".text\n"
    ".set i, 1\n"
    ".rept " TEXT(N) "\n"
    "numbered %i\n"
    ".set i, i + 1\n"
    ".endr\n"
    "function g1\n"
    "function g2, lock incq shared(%rip)\n"
    "function g3\n"
    "function g4, lock decq shared(%rip)\n"
    ".noaltmacro\n");

extern void (*const all[N + 4])(void);

static void call(long step) {
    for (long i = 0; i < N; i += step)
        all[i]();
    for (long i = N; i < N + 4; i++)
        all[i]();
}

int main(int count, char **words) {
    char line[16];

    for (long round = 0; count > 2 && round < atol(words[1]); round++)
        call(atol(words[2]));
    if (count > 2)
        return 0;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        call(1);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
