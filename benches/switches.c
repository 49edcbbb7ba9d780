/*
 * Threads that hand a byte to and fro, a pair on each of two CPUs, with some work between: switches of a
 * known number. Writes the seconds that passed and the CPU seconds.
 *
 *   switches ROUNDS WORK
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static long rounds, amount;

struct side {
    int cpu, from, to, begins;
};

__attribute__((noinline)) void work(void) {
    volatile uint64_t sum = 0;
    for (long i = 0; i < amount; i++)
        sum += i;
}

__attribute__((noinline)) void hand_over(const struct side *side) {
    if (write(side->to, "x", 1) != 1)
        exit(1);
}

__attribute__((noinline)) void wait_for_turn(const struct side *side) {
    char byte;
    if (read(side->from, &byte, 1) != 1)
        exit(1);
}

static void *play(void *argument) {
    const struct side *side = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(side->cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    for (long i = 0; i < rounds; i++) {
        if (side->begins)
            hand_over(side);
        wait_for_turn(side);
        work();
        if (!side->begins)
            hand_over(side);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    rounds = atol(argv[1]);
    amount = atol(argv[2]);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pthread_t threads[4];
    struct side sides[4];
    for (int pair = 0; pair < 2; pair++) {
        int there[2], back[2];
        if (pipe(there) || pipe(back))
            return 1;
        sides[2 * pair] = (struct side){pair, back[0], there[1], 1};
        sides[2 * pair + 1] = (struct side){pair, there[0], back[1], 0};
    }
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, play, &sides[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%.3f %.3f\n", end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9,
           used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return 0;
}
