/* Clocks, in nanoseconds, of programs that measure how long they wait. */
#include <stdint.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* The time that this thread did not run, of which only differences mean something. */
static uint64_t not_running(void) {
    return read_clock(CLOCK_MONOTONIC) - read_clock(CLOCK_THREAD_CPUTIME_ID);
}
