/* A library that is loaded late: a function with arguments and a result, and USDT probes behind a semaphore. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

unsigned short plugin_used_semaphore __attribute__((section(".probes")));

int plugin_use(long number, const char *text)
{
	if (plugin_used_semaphore)
		DTRACE_PROBE2(plugin, used, number, text);
	return (int)(2 * number) + text[0];
}

int plugin_spare(void)
{
	return 1;
}
