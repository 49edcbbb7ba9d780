// Work of a known amount in two threads: calculation in nested calls, and system calls.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t __attribute__((noinline)) calculate(uint64_t x, int depth)
{
	if (depth > 0)
		return calculate(x * 6364136223846793005u + 1442695040888963407u, depth - 1) ^ depth;
	for (int i = 0; i < 2000; i++)
		x = (x ^ (x >> 13)) * 0x9e3779b97f4a7c15u;
	return x;
}

static int zeros_fd;

static uint64_t __attribute__((noinline)) call_kernel(void)
{
	char bytes[4096] = {0};
	uint64_t sum = 0;

	for (int i = 0; i < 4; i++)
		sum += pread(zeros_fd, bytes, sizeof(bytes), 0);
	return sum;
}

static void *work(void *rounds)
{
	volatile uint64_t sum = 0;

	for (uintptr_t i = 0; i < (uintptr_t)rounds; i++)
		sum += calculate(i, 20) + call_kernel();
	return NULL;
}

int main(int argc, char **argv)
{
	uintptr_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	pthread_t thread[2];
	FILE *zeros = tmpfile();
	char page[4096] = {0};

	if (!zeros || fwrite(page, 1, sizeof(page), zeros) != sizeof(page) || fflush(zeros))
		return 1;
	zeros_fd = fileno(zeros);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)rounds))
			return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
