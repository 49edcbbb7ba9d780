/*
 * A program whose call tree is known. Every unit of work is the same loop, so that the share of
 * each function is the share of its units:
 *
 *   main                         total 100
 *     alpha                      total  40   self 10
 *       beta                     total  30   self 30
 *     gamma                      total  35   self 20
 *       delta (inlined)          total  15   self  5
 *         epsilon (inlined)      total  10   self 10
 *     qsort → compare            total  10   self 10
 *     beta                       total  15   self 15
 *
 * After as many rounds as the first argument says it sleeps for the seconds of the second.
 */
#include <stdlib.h>
#include <unistd.h>

#include "spin.h"

static inline __attribute__((always_inline)) void epsilon(void) { SPIN(10); }

static inline __attribute__((always_inline)) void delta(void) {
    SPIN(5);
    epsilon();
}

/* The empty assembly after a call keeps it from becoming a jump. */
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

__attribute__((noinline)) void beta(int units) { SPIN(units); }

__attribute__((noinline)) void alpha(void) {
    SPIN(10);
    beta(30);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void gamma_(void) {
    SPIN(20);
    delta();
}

__attribute__((noinline)) int compare(const void *a, const void *b) {
    SPIN(10);
    return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    for (long round = 0; round < rounds; round++) {
        begin_round();
        alpha();
        gamma_();
        int two[2] = {2, 1}; /* one comparison */
        qsort(two, 2, sizeof two[0], compare);
        beta(15);
    }
    if (argc > 2)
        sleep(atoi(argv[2]));
    return 0;
}
