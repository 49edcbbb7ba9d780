/*
 * A program that works in a signal handler that has a stack of its own, apart from the thread's, and is
 * interrupted from two places:
 *
 *   main                           total 100
 *     often                        total  75
 *       raise → handler            total  60   self 30
 *         helper                               self 30
 *       (itself)                               self 15
 *     seldom                       total  25
 *       raise → handler            total  20   self 10
 *         helper                               self 10
 *       (itself)                               self  5
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "spin.h"

static NOINLINE void helper(void) {
    SPIN(100);
}

static void handler(int number) {
    (void)number;
    SPIN(100);
    helper();
}

static NOINLINE void often(void) {
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
        SPIN(50);
    }
}

static NOINLINE void seldom(void) {
    raise(SIGUSR1);
    SPIN(50);
}

int main(void) {
    size_t size = 1 << 18;
    stack_t stack = {.ss_size = size};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};

    stack.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL))
        return 1;
    for (;;) {
        often();
        seldom();
    }
}
