/*
 * A program of as many threads as its second argument says (1 without), each of which uses as much CPU time as its
 * first argument says, in milliseconds, and shares it out so:
 *
 *   works
 *     left → unit      75
 *     right → unit     25
 *
 * It writes how much CPU time it has used, in nanoseconds, by the kernel's account of the process: with what it took to start
 * it. With a third argument it never ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "spin.h"

static uint64_t budget;
static int endless;

static NOINLINE void unit(void) {
    SPIN(6);
}

static NOINLINE void left(void) {
    for (int i = 0; i < 3; i++)
        unit();
}

static NOINLINE void right(void) {
    unit();
}

static void *works(void *unused) {
    (void)unused;
    do {
        begin_round();
        left();
        right();
    } while (endless || read_clock(CLOCK_THREAD_CPUTIME_ID) < budget);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    int count = argc > 2 ? atoi(argv[2]) : 1;

    budget = (argc > 1 ? (uint64_t)atol(argv[1]) : 1000) * 1000000;
    endless = argc > 3;
    if (count < 1 || count > 64)
        return 2;
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, works, NULL))
            return 1;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%llu\n", (unsigned long long)read_clock(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
