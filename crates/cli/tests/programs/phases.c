/*
 * Two functions, one after the other, for 0.2 s of CPU time each: the first on the first CPU that it may use, the second on the
 * last one. It writes the numbers of these CPUs, and in nanoseconds when each began and ended, and for how long it was away
 * from its CPU at most: it cannot be sampled then.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>

#include "clock.h"

static void go_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static volatile uint64_t sink;

struct phase {
    uint64_t begun, ended, longest;
};

/* What it spins in is a macro, so that all samples have the function at the leaf. */
#define SPIN(phase)                                                                                \
    uint64_t end = read_clock(CLOCK_THREAD_CPUTIME_ID) + 200000000;                                \
    (phase)->begun = (phase)->ended = read_clock(CLOCK_MONOTONIC);                                 \
    while (read_clock(CLOCK_THREAD_CPUTIME_ID) < end) {                                            \
        for (int i = 0; i < 20000; i++)                                                            \
            sink = sink * 5 + 1;                                                                   \
        uint64_t now = read_clock(CLOCK_MONOTONIC);                                                \
        if (now - (phase)->ended > (phase)->longest)                                               \
            (phase)->longest = now - (phase)->ended;                                               \
        (phase)->ended = now;                                                                      \
    }

__attribute__((noinline)) void early(struct phase *phase) {
    SPIN(phase)
}

__attribute__((noinline)) void late(struct phase *phase) {
    SPIN(phase)
}

int main(void) {
    cpu_set_t set;
    int first = -1, last = -1;
    struct phase phases[2] = {{0}, {0}};
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            first = first < 0 ? cpu : first;
            last = cpu;
        }
    }
    go_to(first);
    early(&phases[0]);
    go_to(last);
    late(&phases[1]);
    printf("%d %d\n", first, last);
    for (int i = 0; i < 2; i++)
        printf("%lu %lu %lu\n", phases[i].begun, phases[i].ended, phases[i].longest);
    return 0;
}
