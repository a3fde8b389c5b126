/* See twins.c. */
#define KEEP __attribute__((noipa))

KEEP static long step(long wide, int more) { return -wide - more; }
KEEP long second(int n) { return step(n, 5); }
