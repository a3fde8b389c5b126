/* Moves bytes by every call that `tracer io` knows, in two processes; or (with a count) reads so many files of different
 * lengths, each by the same descriptor. Prints for each file: reads, bytes, writes, bytes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct count { int reads; long read; int writes; long written; };
static char data[65536];

static void in(struct count *count, long bytes) { count->reads++; count->read += bytes > 0 ? bytes : 0; }
static void out(struct count *count, long bytes) { count->writes++; count->written += bytes > 0 ? bytes : 0; }

static void say(const char *path, const struct count *count)
{
	dprintf(2, "%s %d %ld %d %ld\n", path, count->reads, count->read, count->writes, count->written);
}

static int make(char *path, const char *folder, const char *name, const char *end)
{
	snprintf(path, 4096, "%s/%s%s", folder, name, end);
	return open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
}

static void work(const char *folder, const char *name, int size)
{
	static char path[4096], copied[4096], other[4096];
	struct count one = {0}, two = {0}, three = {0};
	struct iovec parts[2] = { { data, size }, { data, 10 } };
	int file = make(path, folder, name, ""), pair[2], copy;
	long moved;

	out(&one, write(file, data, size));
	out(&one, pwrite(file, data, 7, 100));
	out(&one, writev(file, parts, 2));
	out(&one, pwritev(file, parts, 2, 0));
	out(&one, pwritev2(file, parts, 2, 0, 0));
	in(&one, pread(file, data, 50, 0));
	in(&one, preadv(file, parts, 2, 0));
	in(&one, preadv2(file, parts, 2, 0, 0));
	lseek(file, 0, SEEK_SET);
	in(&one, read(file, data, 11));
	in(&one, readv(file, parts, 2));
	fsync(file);
	snprintf(copied, sizeof copied, "%s/%s.copy", folder, name);
	copy = open(copied, O_WRONLY | O_CREAT, 0600);
	lseek(file, 0, SEEK_SET);
	in(&one, moved = sendfile(copy, file, NULL, 64));
	out(&two, moved);
	in(&one, moved = copy_file_range(file, NULL, copy, NULL, 32, 0));
	out(&two, moved);
	in(&two, read(copy, data, 5)); /* EBADF */
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	send(pair[0], data, 21, 0);
	recv(pair[1], data, 9, 0);
	usleep(500000); /* the names are read meanwhile */
	close(file);
	file = make(other, folder, name, ".other"); /* the number that was the first file's */
	out(&three, write(file, data, 333));
	usleep(500000);
	dup2(copy, file);
	out(&two, write(file, data, 3)); /* the other's number is the copy's now */
	usleep(500000);
	say(path, &one);
	say(copied, &two);
	say(other, &three);
}

int main(int argc, char **argv)
{
	int files = argc > 2 ? atoi(argv[2]) : 0;
	char path[4096];

	for (int i = 0; i < files; i++) {
		snprintf(path, sizeof path, "%s/%d", argv[1], i);
		int file = open(path, O_RDONLY);

		if (read(file, data, sizeof data) != i + 1 || close(file))
			return 1;
	}
	if (files) {
		snprintf(path, sizeof path, "%s/stays", argv[1]);
		int file = open(path, O_WRONLY | O_CREAT, 0600);

		write(file, data, 10);
		usleep(500000);
		return 0;
	}
	if (fork() == 0) {
		work(argv[1], "child", 200);
		return 0;
	}
	work(argv[1], "parent", 1000);
	return wait(NULL) < 0;
}
