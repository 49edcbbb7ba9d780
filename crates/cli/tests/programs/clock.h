/* Clocks, in nanoseconds, of programs that measure how long they wait. */
#include <stdint.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/*
 * The time that this thread did not run, of which only differences mean something. Clocks are read one after the other, and
 * the thread may lose its CPU in between: then they are read again.
 */
static uint64_t not_running(void) {
    for (;;) {
        uint64_t before = read_clock(CLOCK_MONOTONIC);
        uint64_t ran = read_clock(CLOCK_THREAD_CPUTIME_ID);
        if (read_clock(CLOCK_MONOTONIC) - before < 20000)
            return before - ran;
    }
}
