/*
 * Two functions, one after the other, for 0.4 s each by the clock on the wall: the first on the first CPU that it may use, the
 * second on the last one. It writes the numbers of these CPUs.
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

/* What it spins in is a macro, so that all samples have the function at the leaf. */
#define SPIN_UNTIL(end)                                                                            \
    while (read_clock(CLOCK_MONOTONIC) < (end)) {                                                  \
        for (int i = 0; i < 20000; i++)                                                            \
            sink = sink * 5 + 1;                                                                   \
    }

__attribute__((noinline)) void early(uint64_t end) {
    SPIN_UNTIL(end)
}

__attribute__((noinline)) void late(uint64_t end) {
    SPIN_UNTIL(end)
}

int main(void) {
    cpu_set_t set;
    int first = -1, last = -1;
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            first = first < 0 ? cpu : first;
            last = cpu;
        }
    }
    printf("%d %d\n", first, last);
    uint64_t start = read_clock(CLOCK_MONOTONIC);
    go_to(first);
    early(start + 400000000);
    go_to(last);
    late(start + 800000000);
    return 0;
}
