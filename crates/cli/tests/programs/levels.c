// Works at the end of a stack of 36 frames, always the same: 32 functions that each keep something over the call of the next one, in
// registers that these save. One of them has room that it does not know the size of.
#include <alloca.h>

static volatile unsigned long sink;

#define LEVEL(name, next)                                                                       \
	__attribute__((noinline)) static unsigned long name(unsigned long a, unsigned long b) { \
		unsigned long c = a * 3 + b, d = next(a ^ c, b + 1);                            \
		return d * c + a + b;                                                           \
	}

#define LEVELS(name, next)      \
	LEVEL(name##_0, next)     \
	LEVEL(name##_1, name##_0) \
	LEVEL(name##_2, name##_1) \
	LEVEL(name##_3, name##_2) \
	LEVEL(name, name##_3)

__attribute__((noinline)) static unsigned long work(unsigned long a, unsigned long b) {
	for (unsigned long round = 0; round < 100000; round++) sink += round * round % 7;
	return a + b;
}

LEVELS(first, work)
LEVELS(second, first)
LEVELS(third, second)

__attribute__((noinline)) static unsigned long roomy(unsigned long a, unsigned long b) {
	volatile char *room = alloca(16 + b % 2);
	unsigned long c = third(a, b);
	return c + room[0];
}

LEVELS(fourth, roomy)
LEVELS(fifth, fourth)
LEVELS(sixth, fifth)

int main(void) {
	unsigned long all = 0;
	for (;;) all += sixth(all, 1);
}
