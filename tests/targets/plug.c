/* A library with a probe behind a semaphore; plug() says whether it came to it. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

__extension__ unsigned short plug_hit_semaphore __attribute__((section(".probes"))) __attribute__((visibility("hidden")));

int plug(int i)
{
	if (!*(volatile unsigned short *)&plug_hit_semaphore)
		return 0;
	STAP_PROBE1(plug, hit, i);
	return 1;
}
