/* Two static functions of one name, with other parameters and results; that of the other file is never below first(). */
#define KEEP __attribute__((noipa))
long second(int n);

KEEP static int step(int n) { return n + 1; }
KEEP int first(int n) { return step(n) + step(n + 1); }
KEEP long both(int n) { return first(n) + second(n); }

int main(void) { return both(3) > 1000; }
