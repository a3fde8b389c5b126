/* A 32-bit program that needs no C library of 32 bits. Each function is called ROUNDS times, with values that tell
 * which argument and which round it is. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#define ROUNDS 5
#define PROBE __attribute__((noinline, noclone))

unsigned short narrow_guarded_semaphore __attribute__((section(".probes")));
unsigned short narrow_item_semaphore __attribute__((section(".probes")));

struct item {
	char kind;
	long long id;
	const char *name;
	double weight;
	unsigned low : 3, high : 9;
	struct item *next;
};
struct pair { int a, b; };

volatile int sink, counter = 100;
static struct item second = {'b', -2, "second", 0.5, 2, 300, 0};
static struct item first = {'a', 0x123456789abcdefLL, "first", 2.5, 5, 400, &second};

PROBE int add(int a, unsigned b) { sink += a; return a - (int)b; }
PROBE long long wide(int before, long long whole, short small) { sink += small; return whole + before; }
PROBE double half(double d, float f, int after) { sink += after; return d * f; }
PROBE struct pair swapped(int a, int b) { sink++; return (struct pair){b, a}; }
PROBE int by_value(struct pair p, char c, int after) { sink += c; return p.a + p.b + after; }
PROBE __attribute__((regparm(3))) int in_registers(int a, int b, long long c, int d) { sink++; return a + b + (int)c + d; }
static PROBE int own(int a, const char *text, int c) { sink += c; return a + text[0] + c; }

PROBE int seen(const struct item *item, int round)
{
	DTRACE_PROBE4(narrow, item, item->name, item->id, round, counter);
	if (narrow_guarded_semaphore)
		DTRACE_PROBE1(narrow, guarded, (short)-round);
	return item->high + round;
}

PROBE int leaf(int n) { sink += n; return n; }
PROBE int middle(int n) { volatile char room[64]; room[n] = n; return leaf(room[n]) + room[n]; }
PROBE int outer(int n) { return middle(n) + 1; }

int main(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		add(-i, 3000000000u + i);
		wide(i, -(1LL << 40) - i, -7);
		half(1.5, 2.25f, i);
		swapped(i, 2 * i);
		by_value((struct pair){i, 10 * i}, 'c', 7);
		in_registers(1, 2, 0x300000000LL + i, 4);
		own(i, first.name, 9);
		seen(&first, i);
		outer(i);
	}
	return 0;
}

__asm__(".globl _start\n.type _start, @function\n_start:\n"
	".cfi_startproc\n.cfi_undefined eip\n"
	"call main\nmovl %eax, %ebx\nmovl $1, %eax\nint $0x80\n"
	".cfi_endproc\n.size _start, . - _start\n");
