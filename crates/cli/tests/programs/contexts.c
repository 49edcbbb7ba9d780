/*
 * A program that works by turns in two contexts (`makecontext`), each with a stack of its own, and in the
 * thread's:
 *
 *   main                   self 20
 *   __start_context
 *     left → work          self 30
 *     right                self 20
 *       work               self 30
 */
#include <stdlib.h>
#include <ucontext.h>

#include "spin.h"

static ucontext_t thread, contexts[2];

static NOINLINE void work(void) {
    SPIN(30);
}

static void left(void) {
    for (;;) {
        work();
        swapcontext(&contexts[0], &thread);
    }
}

static void right(void) {
    for (;;) {
        work();
        SPIN(20);
        swapcontext(&contexts[1], &thread);
    }
}

int main(void) {
    void (*starts[2])(void) = {left, right};

    for (int i = 0; i < 2; i++) {
        if (getcontext(&contexts[i]))
            return 1;
        contexts[i].uc_stack.ss_size = 1 << 18;
        contexts[i].uc_stack.ss_sp = malloc(contexts[i].uc_stack.ss_size);
        contexts[i].uc_link = &thread;
        makecontext(&contexts[i], starts[i], 0);
    }
    for (;;) {
        SPIN(20);
        for (int i = 0; i < 2; i++)
            swapcontext(&thread, &contexts[i]);
    }
}
