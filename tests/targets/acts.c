/* Does what its arguments say, one after the other: each is an act that the kernel has events of. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long worked;
static char bytes[100];

static void sleeps(void) {
    struct timespec pause = {0, 2345678};
    syscall(SYS_nanosleep, &pause, NULL);
}

static void reads(void) {
    char some[7];
    int zeroes = openat(AT_FDCWD, "/dev/zero", O_RDONLY);
    if (read(zeroes, some, sizeof some) == sizeof some)
        close(zeroes);
}

static void writes(void) {
    int nothing = openat(AT_FDCWD, "/dev/null", O_WRONLY);
    dup2(nothing, 77);
    for (int size = 0; size < 100; size++)
        if (write(77, bytes, size) < 0)
            return;
}

static void forks(void) {
    if (!fork())
        _exit(3);
    wait(NULL);
}

int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        const char *act = words[i];
        if (!strcmp(act, "sleep"))
            sleeps();
        else if (!strcmp(act, "read"))
            reads();
        else if (!strcmp(act, "miss"))
            openat(AT_FDCWD, "/no/such/file", O_RDONLY);
        else if (!strcmp(act, "write"))
            writes();
        else if (!strcmp(act, "kill"))
            kill(getpid(), 0);
        else if (!strcmp(act, "rename"))
            prctl(PR_SET_NAME, "renamed");
        else if (!strcmp(act, "fork"))
            forks();
        else if (!strcmp(act, "work"))
            for (long until = worked + 200000000; worked < until; worked++)
                ;
        else if (!strcmp(act, "exec"))
            execl("/bin/true", "true", "one", "two", (char *)NULL);
    }
    return 0;
}
