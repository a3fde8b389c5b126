/* 600 sites of one probe (of 900, those that are passed), each with constants of its own, as a header that is used everywhere leaves them.
 * usage: apart; prints how often they were passed, and the sum of their first arguments. */
#include <stdio.h>
#include <sys/sdt.h>

static long passed, sum;

#define PASS(n)                                                         \
	do {                                                            \
		for (int again = 0; again < (n) % 3; again++) {         \
			passed++;                                       \
			sum += (n);                                     \
			DTRACE_PROBE2(apart, pass, (n), (n) % 7);       \
		}                                                       \
	} while (0);
#define TEN(n) PASS(n##0) PASS(n##1) PASS(n##2) PASS(n##3) PASS(n##4) PASS(n##5) PASS(n##6) PASS(n##7) PASS(n##8) PASS(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)

int main(void)
{
	HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4) HUNDRED(5) HUNDRED(6)
	HUNDRED(7) HUNDRED(8) HUNDRED(9)
	printf("%ld passed, sum %ld\n", passed, sum);
	return 0;
}
