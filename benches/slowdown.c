// Works for ever in two threads, in stacks of 28 frames and in the kernel, and reports in a shared file how
// often it did its piece of work and what CPU time that took: two numbers a thread, of 64 bits each.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct counters {
	// Odd while the others are written.
	volatile uint64_t turn, pieces, ns;
	char rest[40];
};

static struct counters *shared;
static int zeros;

static uint64_t __attribute__((noinline)) calculate(uint64_t x, int depth)
{
	if (depth > 0)
		return calculate(x * 6364136223846793005u + 1442695040888963407u, depth - 1) ^ depth;
	for (int i = 0; i < 4000; i++)
		x = (x ^ (x >> 13)) * 0x9e3779b97f4a7c15u;
	return x;
}

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void *work(void *number)
{
	struct counters *mine = &shared[(uintptr_t)number];
	volatile uint64_t sum = 0;
	char bytes[4096];
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET((uintptr_t)number, &cpu);
	pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu);
	for (;;) {
		for (int i = 0; i < 100; i++)
			sum += calculate(sum + i, 24) + pread(zeros, bytes, sizeof(bytes), 0);
		mine->turn++;
		__sync_synchronize();
		mine->pieces++;
		mine->ns = now();
		__sync_synchronize();
		mine->turn++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int file = argc > 1 ? open(argv[1], O_RDWR) : -1;
	pthread_t thread;

	zeros = open("/dev/zero", O_RDONLY);
	shared = mmap(NULL, 2 * sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (zeros < 0 || shared == MAP_FAILED || pthread_create(&thread, NULL, work, (void *)1))
		return 1;
	work((void *)0);
	return 0;
}
