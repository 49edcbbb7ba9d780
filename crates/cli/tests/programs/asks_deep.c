// Makes known system calls from known functions: the first argument is the depth of the recursion.
//
//   main → left → asks (inlined)                       getppid, 5 times
//   main → right → deeper → asks (inlined)             fchdir(-7), which fails, 3 times
//   main → descends → … → descends → bottom            getpgid(0), once
//   a thread: in_thread → asks (inlined)               getuid, twice
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>

// Neither made one with another of the same code, nor copied for a constant argument.
#define OWN_CODE __attribute__((noipa))

static inline __attribute__((always_inline)) long asks(long number, long argument)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(argument) : "rcx", "r11", "memory");
	return result;
}

static OWN_CODE long left(void)
{
	return 1 + asks(SYS_getppid, 0);
}

static OWN_CODE long deeper(void)
{
	return 2 + asks(SYS_fchdir, -7);
}

static OWN_CODE long right(void)
{
	return 3 + deeper();
}

static OWN_CODE long bottom(void)
{
	return 4 + asks(SYS_getpgid, 0);
}

static OWN_CODE long descends(long depth)
{
	return depth ? 1 + descends(depth - 1) : 5 + bottom();
}

static OWN_CODE long in_thread(void)
{
	return 6 + asks(SYS_getuid, 0);
}

static void *runs(void *unused)
{
	for (int round = 0; round < 2; round++)
		in_thread();
	return unused;
}

int main(int count, char **arguments)
{
	long depth = count > 1 ? atol(arguments[1]) : 10, sum = 0;
	pthread_t thread;

	for (int round = 0; round < 5; round++)
		sum += left();
	for (int round = 0; round < 3; round++)
		sum += right();
	sum += descends(depth);
	pthread_create(&thread, NULL, runs, NULL);
	pthread_join(thread, NULL);
	return sum == 0;
}
