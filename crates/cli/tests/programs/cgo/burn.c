#include "burn.h"
#include <time.h>

extern void fromC(long);

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

__attribute__((noinline)) void burn(long us) {
    volatile unsigned long sum = 0;
    for (long until = now() + us; now() < until;)
        for (int i = 0; i < 1000; i++)
            sum += i;
}

__attribute__((noinline)) void by_go(long us) { fromC(us); }
