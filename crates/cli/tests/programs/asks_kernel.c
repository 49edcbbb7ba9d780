// Makes a known number of system calls: arguments are how many threads there are, and how many calls each makes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long calls;

static void *make_calls(void *unused)
{
	for (long i = 0; i < calls; i++) {
		syscall(SYS_getppid);
		syscall(SYS_fchdir, -7);
		if (i % 10 == 0)
			syscall(SYS_openat, AT_FDCWD, "/no/such/file", O_RDONLY | O_CLOEXEC);
	}
	return unused;
}

int main(int count, char **arguments)
{
	int threads = count > 1 ? atoi(arguments[1]) : 2;
	pthread_t others[64];

	calls = count > 2 ? atol(arguments[2]) : 1000;
	for (int i = 0; i < threads; i++)
		pthread_create(&others[i], NULL, make_calls, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(others[i], NULL);
	if (!fork()) {
		make_calls(NULL);
		_exit(3);
	}
	wait(NULL);
	return 0;
}
