/* Makes system calls, each a known number of times: from threads, in children, failing, interrupted and begun anew.
 * With an argument it is stopped in one too, and a thread that is not the first executes another program. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE 150000 /* until the parent waits */

static int ends[2];

static void handled(int number) { (void)number; }

static void *asks(void *unused) {
    (void)unused;
    for (int i = 0; i < 100; i++)
        syscall(SYS_getppid);
    for (int i = 0; i < 10; i++)
        syscall(SYS_close, -1);
    return NULL;
}

static void *becomes_true(void *unused) {
    usleep(20000);
    execl("/bin/true", "true", (char *)NULL);
    return unused;
}

/* A signal comes while the parent waits in a call, so that this returns to its handler. */
static void interrupted(void (*waits)(void), int number) {
    pid_t parent = getpid(), child = fork();
    if (!child) {
        usleep(PAUSE);
        kill(parent, number);
        if (number == SIGSTOP) {
            usleep(PAUSE);
            kill(parent, SIGCONT);
        }
        usleep(PAUSE);
        syscall(SYS_write, ends[1], "x", 1);
        _exit(0);
    }
    waits();
    while (waitpid(child, NULL, 0) < 0)
        ;
}

static void reads(void) { char c; syscall(SYS_read, ends[0], &c, 1); }
static void sleeps(void) { nanosleep(&(struct timespec){0, 600000000}, NULL); }

int main(int count, char **words) {
    (void)words;
    struct sigaction begins_anew = {.sa_handler = handled, .sa_flags = SA_RESTART}, ends_call = {.sa_handler = handled};
    sigaction(SIGUSR1, &begins_anew, NULL);
    sigaction(SIGUSR2, &ends_call, NULL);
    if (pipe(ends))
        return 1;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, asks, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    interrupted(reads, SIGUSR1);  /* ERESTARTSYS, rt_sigreturn, and read once more */
    interrupted(reads, SIGUSR2);  /* the same, but the program sees EINTR */
    pid_t child = vfork();
    if (!child) {
        execl("/nonexistent", "nonexistent", (char *)NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    if (count == 1)
        return 0;
    interrupted(sleeps, SIGSTOP); /* ERESTART_RESTARTBLOCK, and restart_syscall */
    pthread_create(&threads[0], NULL, becomes_true, NULL);
    pause(); /* until then */
    return 1;
}
