/* What the tables of docs/peers.md are about: a function that is called ten times, with a probe in it. */
#include <stdio.h>
#include <sys/sdt.h>

struct item {
	int price;
	const char *name;
};

int sold;

__attribute__((noinline)) int sell(int number, const char *name, struct item *item)
{
	int total = number * item->price;
	DTRACE_PROBE2(shop, sold, number, name);
	sold += total; /* line 16 */
	return total;
}

int main(void)
{
	struct item item = {3, "nail"};
	for (int number = 1; number <= 10; number++)
		if (sell(number, number % 2 ? "odd" : "even", &item) < 0)
			return 1;
	printf("%d\n", sold);
	return 0;
}
