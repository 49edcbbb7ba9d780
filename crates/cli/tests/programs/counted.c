// Waits and allocates as often as its arguments say: counted OFTEN SELDOM [MICROSECONDS]. The third is how long it waits where it
// does so often.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// The compiler must not do away with allocations.
static void *volatile kept;

static void nap(long microseconds)
{
	struct timespec length = { 0, microseconds * 1000 };
	nanosleep(&length, NULL);
}

__attribute__((noinline)) static void often(int times, long microseconds)
{
	for (int i = 0; i < times; i++) {
		nap(microseconds);
		kept = malloc(64);
		free(kept);
	}
}

__attribute__((noinline)) static void seldom(int times)
{
	for (int i = 0; i < times; i++) {
		nap(4000);
		kept = malloc(4096);
		free(kept);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 1;
	often(atoi(argv[1]), argc > 3 ? atoi(argv[3]) : 200);
	seldom(atoi(argv[2]));
	return 0;
}
