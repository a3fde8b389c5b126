/* One hit with a value of every kind: numbers, text, memory. Static and at a fixed address, so that what is shown of
 * its addresses is the same in each run. */
#include <sys/sdt.h>

enum colour { RED, GREEN = 5, BLUE };
struct point { int x; short y; };
struct thing {
	char name[24];
	int numbers[3];
	struct point at;
	unsigned char hardware[6];
	enum colour colour;
	unsigned int address;
} one = {"tea, \"cup\"", {1, 2, 3}, {4, -5}, {0xde, 0xad, 0xbe, 0xef, 0, 1}, BLUE, 0x0100007f};

__attribute__((noinline)) void inner(struct thing *thing, int small, double half)
{
	DTRACE_PROBE3(pairs, hit, thing, small, half);
	asm volatile("" ::: "memory");
}

__attribute__((noinline)) void outer(struct thing *thing)
{
	inner(thing, -3, 1.5);
	asm volatile("" ::: "memory");
}

int main(void)
{
	outer(&one);
	return 0;
}
