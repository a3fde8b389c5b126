/* Loads libraries when it is told to, and calls into them: "load PATH" answers with the address of a function in it,
   "call N" calls it so often in the library that was loaded last, "end" ends. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	int (*use)(long, const char *) = NULL;
	char line[4096];
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof line, stdin) && strncmp(line, "end", 3)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "load ", 5)) {
			void *library = dlopen(line + 5, RTLD_NOW);
			if (!library) {
				puts(dlerror());
				return 1;
			}
			use = (int (*)(long, const char *))dlsym(library, "plugin_use");
			printf("%p\n", (void *)use);
		} else if (!strncmp(line, "call ", 5)) {
			long sum = 0, calls = atol(line + 5);
			for (long number = 0; number < calls; number++)
				sum += use(number, number % 2 ? "odd" : "even");
			printf("%ld\n", sum);
		}
	}
	return 0;
}
