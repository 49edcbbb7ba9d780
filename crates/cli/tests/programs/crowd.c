/*
 * A program of many threads, as many as its argument says, that take turns:
 *
 *   start_thread → works
 *     left → unit      75
 *     right → unit     25
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "spin.h"

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
        usleep(400000);
    }
    return unused;
}

int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 5000;
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread, &attributes, works, NULL))
            return 1;
    for (;;)
        pause();
}
