/* How a process becomes another program: `execs STEP…`. Each program of it is hit 10 times and then does the first step,
 * of which it execs this file with the rest of them; where none is left it ends. With EXECS_WAIT in its environment each
 * first says where its function and its semaphore are, and waits for a line. */
#define _SDT_HAS_SEMAPHORES 1
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <unistd.h>

#define HITS 10

unsigned short execs_hit_semaphore __attribute__((section(".probes")));

static char **words;

__attribute__((noinline)) void work(int i)
{
	__asm__ volatile("");
	if (*(volatile unsigned short *)&execs_hit_semaphore)
		STAP_PROBE1(execs, hit, i);
}

static void hits(void)
{
	for (int i = 0; i < HITS; i++)
		work(i);
}

static void next(void)
{
	words[1] = words[0];
	execv(words[0], words + 1);
	_exit(9);
}

static void *in_thread(void *unused)
{
	next();
	return unused;
}

static void *after_main(void *unused)
{
	usleep(100000);
	hits();
	next();
	return unused;
}

/* `load FILE`: calls its answer() ten times when the main thread has ended. */
static void *loading(void *unused)
{
	usleep(100000);
	int (*answer)(void) = (int (*)(void))dlsym(dlopen(words[2], RTLD_NOW), "answer");
	for (int i = 0; i < HITS; i++)
		answer();
	exit(0);
	return unused;
}

/* `stay`: goes on without its main thread, and is hit 10 times for each line of its input. */
static void *staying(void *unused)
{
	char line[64];

	while (fgets(line, sizeof line, stdin)) {
		hits();
		puts("done");
		fflush(stdout);
	}
	exit(0);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	const char *step = argc > 1 ? argv[1] : "";

	words = argv;
	if (getenv("EXECS_WAIT")) {
		printf("%ld %ld\n", (long)work, (long)&execs_hit_semaphore);
		fflush(stdout);
		getchar();
	}
	hits();
	if (!strcmp(step, "wait")) {
		puts("ready");
		fflush(stdout);
		getchar();
		next();
	} else if (!strcmp(step, "leader")) {
		next();
	} else if (!strcmp(step, "thread")) {
		pthread_create(&thread, NULL, in_thread, NULL);
		pthread_join(thread, NULL);
	} else if (!strcmp(step, "gone") || !strcmp(step, "load") || !strcmp(step, "stay")) {
		void *(*run)(void *) = step[0] == 'g' ? after_main : step[0] == 'l' ? loading : staying;
		pthread_create(&thread, NULL, run, NULL);
		if (step[0] == 's') {
			puts("ready");
			fflush(stdout);
		}
		pthread_exit(NULL);
	} else if (!strcmp(step, "vfork") || !strcmp(step, "fork")) {
		if (!(step[0] == 'v' ? vfork() : fork()))
			next();
		wait(NULL);
		hits();
	}
	return 0;
}
