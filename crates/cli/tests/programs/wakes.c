/*
 * One thread waits and another wakes it, 40 times, once it is told to by a byte on standard input. In the
 * end it writes how many nanoseconds it waited for that in `waits_for_partner`, and how many for a clock
 * in `waits_for_clock`.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

__attribute__((noinline)) void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void wakes_partner(void) {
    if (write(back[1], "x", 1) != 1)
        _exit(1);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void *partner(void *unused) {
    char byte;
    while (read(there[0], &byte, 1) == 1) {
        sleep_ms(20);
        wakes_partner();
    }
    return unused;
}

__attribute__((noinline)) void waits_for_partner(void) {
    char byte;
    if (write(there[1], "x", 1) != 1 || read(back[0], &byte, 1) != 1)
        _exit(1);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void waits_for_clock(void) {
    sleep_ms(10);
    NO_TAIL_CALL;
}

int main(void) {
    uint64_t for_partner = 0, for_clock = 0;
    pthread_t thread;
    char byte;

    if (pipe(there) != 0 || pipe(back) != 0 || read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    pthread_create(&thread, NULL, partner, NULL);
    for (int i = 0; i < 40; i++) {
        uint64_t start = now(), middle;
        waits_for_partner();
        middle = now();
        waits_for_clock();
        for_partner += middle - start;
        for_clock += now() - middle;
    }
    printf("waits_for_partner %lu\nwaits_for_clock %lu\n", for_partner, for_clock);
    return 0;
}
