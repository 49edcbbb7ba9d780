// Lines, inlined calls and variables whose counts are known: source_lines ROUNDS. Each round calls `handle` once, which takes
// round % 5 steps; in even rounds each step calls `mix` twice, in odd rounds once.
#include <stdlib.h>

struct request {
	int steps;
	const char *name;
	struct { long first; unsigned flag : 3; } in;
};

enum color { RED, GREEN = 5 };

static long total;

static inline __attribute__((always_inline)) long mix(long x, int k)
{
	long y = x * 31 + k;
	return y ^ (y >> 7);
}

__attribute__((noinline)) long handle(struct request *request, int flags, double factor)
{
	long sum = 0;
	enum color color = flags & 1 ? RED : GREEN;
	for (int i = 0; i < request->steps; i++) {
		sum += mix(request->in.first + i, flags); // a step
		if (color == GREEN)
			sum ^= mix(sum, i); // an even step
	}
	total += sum; // once
	return sum + (long)factor;
}

int main(int argc, char **argv)
{
	struct request request = { 3, "hello", { 7, 2 } };
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	long all = 0;

	for (int n = 0; n < rounds; n++) {
		request.steps = n % 5;
		all += handle(&request, n, n * 0.5);
	}
	total += all;
	return total == 1;
}
