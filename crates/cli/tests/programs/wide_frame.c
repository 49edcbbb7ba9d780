/*
 * Threads of less than a millisecond with as large a frame, and as many thread-local variables, as those of rustc, and
 * more frames than the kernel unwinds. Each is started on the stack of the one before, and goes one of two ways:
 *
 *   left → wide → recurses → … → recurses → bottom     70
 *   right → wide → recurses → … → recurses → ground    30
 */
#include <pthread.h>
#include <stdlib.h>

#include "spin.h"

#define OWN_CODE __attribute__((noipa))

static __thread volatile char variables[28 << 10];

static OWN_CODE void bottom(void) {
    SPIN(70);
}

static OWN_CODE void ground(void) {
    SPIN(30);
}

static OWN_CODE long recurses(long depth, void (*end)(void)) {
    if (depth)
        depth += recurses(depth - 1, end);
    else
        end();
    return depth;
}

static OWN_CODE long wide(void (*end)(void)) {
    volatile char area[540 << 10];

    // All of it in memory, as far as the kernel copies it.
    for (long at = 0; at < (long)sizeof area; at += 4096)
        area[at] = 1;
    for (long at = 0; at < (long)sizeof variables; at += 4096)
        variables[at] = 1;
    return recurses(600, end) + area[0];
}

static OWN_CODE void *left(void *unused) {
    (void)unused;
    variables[0] = (char)wide(bottom);
    return NULL;
}

static OWN_CODE void *right(void *unused) {
    (void)unused;
    variables[0] = (char)wide(ground);
    return NULL;
}

int main(int argc, char **argv) {
    for (long rounds = argc > 1 ? atol(argv[1]) : -1; rounds != 0; rounds--) {
        pthread_t thread;

        // Both ways of a round are as long.
        if (rounds % 2 == 0)
            begin_round();
        if (pthread_create(&thread, NULL, rounds % 2 ? left : right, NULL))
            return 1;
        pthread_join(thread, NULL);
    }
}
