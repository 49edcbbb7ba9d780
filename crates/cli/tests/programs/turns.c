/*
 * Two threads that hand a byte to and fro on one CPU, as often as is said: very many short waits. In the end it
 * writes how many nanoseconds they did not run in `plays`.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"

static long rounds;
static int there[2], back[2];
static uint64_t waited;

__attribute__((noinline)) void plays(int from, int to) {
    uint64_t start = not_running();
    char byte;
    for (long i = 0; i < rounds; i++) {
        /* So long that a switch, which is waited for, too, takes little of it. */
        for (uint64_t end = read_clock(CLOCK_MONOTONIC) + 10000; read_clock(CLOCK_MONOTONIC) < end;) {
        }
        if (write(to, "x", 1) != 1 || read(from, &byte, 1) != 1)
            exit(1);
    }
    __atomic_add_fetch(&waited, not_running() - start, __ATOMIC_RELAXED);
}

static void *partner(void *unused) {
    plays(there[0], back[1]);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    cpu_set_t set;
    if (argc != 2 || pipe(there) != 0 || pipe(back) != 0)
        return 1;
    rounds = atol(argv[1]);
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof set, &set);
    pthread_create(&thread, NULL, partner, NULL);
    plays(back[0], there[1]);
    pthread_join(thread, NULL);
    printf("plays %lu\n", waited);
    return 0;
}
