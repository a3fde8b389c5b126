/* Writes variables, says how often: counters THREADS FORKS. A line on stdin lets it begin where a third word is given. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct pair {
	int first;
	long second;
	char name[16];
};

volatile unsigned counter;
volatile unsigned quiet;
volatile struct pair pair;
static volatile unsigned long cells[4];
volatile char wide[24];

static __attribute__((noinline)) void bump(void)
{
	counter = counter + 1;
}

static void *run(void *times)
{
	for (long round = 0; round < (long)times; round++)
		bump();
	return NULL;
}

static void in_thread(long times)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, (void *)times) == 0)
		pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	char byte;
	int threads = argc > 1 ? atoi(argv[1]) : 0, forks = argc > 2 ? atoi(argv[2]) : 0;

	if (argc > 3 && (puts("ready"), fflush(stdout), read(0, &byte, 1)) < 0)
		return 1;
	for (int round = 0; round < 5; round++)
		bump();
	for (int number = 1; number <= threads; number++)
		in_thread(number);
	for (int number = 0; number < forks; number++) {
		if (fork() == 0) {
			bump();
			in_thread(2);
			_exit(0);
		}
		wait(NULL);
	}
	pair.second = 7;
	cells[1] = 3;
	wide[0] = 1;
	printf("%u\n", counter);
	return 0;
}
