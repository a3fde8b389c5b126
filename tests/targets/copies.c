/* copies LIBRARY: for each line of its input `load` loads the library twice, as dlmopen(3) does it; `call` calls each
 * copy ten times. It says how many of the calls came to the probe. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define CALLS 10

int main(int argc, char **argv)
{
	int (*plug[2])(int) = {0};
	char line[64];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		int came = 0;
		if (!strcmp(line, "load\n")) {
			plug[0] = (int (*)(int))dlsym(dlopen(argv[1], RTLD_NOW), "plug");
			plug[1] = (int (*)(int))dlsym(dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW), "plug");
		} else {
			for (int i = 0; i < 2 * CALLS; i++)
				came += plug[i & 1](i);
		}
		printf("%d\n", came);
		fflush(stdout);
	}
	return 0;
}
