/*
 * One thread waits and another wakes it, 40 times, once it gets a byte on standard input. In the
 * end it writes how many nanoseconds it did not run in `waits_for_partner`, where it waits for that, and in
 * `waits_for_clock`.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"

static int there[2], back[2];

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

/* Each measures itself, so that what it measures is recorded as its own. */
__attribute__((noinline)) void waits_for_partner(uint64_t *total) {
    uint64_t start = not_running();
    char byte;
    if (write(there[1], "x", 1) != 1 || read(back[0], &byte, 1) != 1)
        _exit(1);
    *total += not_running() - start;
    NO_TAIL_CALL;
}

__attribute__((noinline)) void waits_for_clock(uint64_t *total) {
    uint64_t start = not_running();
    sleep_ms(10);
    *total += not_running() - start;
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
        waits_for_partner(&for_partner);
        waits_for_clock(&for_clock);
    }
    printf("waits_for_partner %lu\nwaits_for_clock %lu\n", for_partner, for_clock);
    return 0;
}
