/*
 * A program of many threads, as many as its first argument says, that take turns, and sleep in between for as many
 * milliseconds as the second says (400 without):
 *
 *   start_thread → works
 *     left → unit      75
 *     right → unit     25
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "spin.h"

static useconds_t pause_us = 400000;

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
    for (;;) {
        left();
        right();
        usleep(pause_us);
    }
    return unused;
}

int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 5000;
    pthread_attr_t attributes;
    pthread_t thread;

    if (argc > 2)
        pause_us = (useconds_t)atol(argv[2]) * 1000;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread, &attributes, works, NULL))
            return 1;
    for (;;)
        pause();
}
