// Deep stacks that differ little: functions call themselves and each other to depths that are drawn by lot, some from one place with
// more or less room on the stack, so that frames of different callers come to lie in the same places.
#include <alloca.h>
#include <stdint.h>

static volatile unsigned long sink;
static uint64_t state = 1;

static unsigned draw(unsigned below) {
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % below;
}

__attribute__((noinline)) static void work(unsigned long rounds) {
	for (unsigned long round = 0; round < rounds; round++)
		sink += round * round % 7;
}

static void plain(unsigned depth, unsigned kept);

// Room for 16 to 64 bytes, in which old return addresses are left.
__attribute__((noinline)) static void roomy(unsigned depth, unsigned kept) {
	volatile char *room = alloca(16 * (1 + kept % 4));
	plain(depth, kept / 4);
	sink += room[0];
}

__attribute__((noinline)) static void padded(unsigned depth, unsigned kept) {
	volatile char room[24];
	plain(depth, kept);
	sink += room[0] + kept;
}

__attribute__((noinline)) static void plain(unsigned depth, unsigned kept) {
	if (!depth)
		work(3000);
	else if (draw(3))
		plain(depth - 1, kept);
	else if (draw(2))
		roomy(depth - 1, draw(256));
	else
		padded(depth - 1, kept);
	sink += depth + kept;
}

int main(void) {
	for (;;) {
		unsigned depth = 16 + draw(60);
		for (int again = draw(40); again >= 0; again--)
			plain(depth, draw(256));
	}
}
