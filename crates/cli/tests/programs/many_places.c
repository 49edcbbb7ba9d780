// A second of CPU time, spread over tens of thousands of instructions of a few functions.
#include <time.h>

static volatile unsigned sum;

#define FOUR(it) it it it it
#define PLACES FOUR(FOUR(FOUR(FOUR(sum += 3; sum ^= 5;))))
#define FUNCTION(name) __attribute__((noinline)) static void name(void) { PLACES }

FUNCTION(one)
FUNCTION(two)
FUNCTION(three)
FUNCTION(four)
FUNCTION(five)
FUNCTION(six)
FUNCTION(seven)
FUNCTION(eight)

int main(void) {
    while (clock() < CLOCKS_PER_SEC) {
        for (int round = 0; round < 100; round++) {
            one();
            two();
            three();
            four();
            five();
            six();
            seven();
            eight();
        }
    }
    return 0;
}
