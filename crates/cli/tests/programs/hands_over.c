// Two coroutines by `makecontext`, which hand control to one another all the time. The tree is known:
//
//   first   total 60, self 20
//     deep  self  40
//   second  self  40
#include <stdlib.h>
#include <ucontext.h>

#include "units.h"

static ucontext_t at_main, at_first, at_second;
static long rounds;

__attribute__((noinline)) static void deep(void) { SPIN(40); }

static void first(void) {
    for (long round = 0; round < rounds; round++) {
        begin_round();
        SPIN(20);
        deep();
        swapcontext(&at_first, &at_second);
    }
}

static void second(void) {
    for (;;) {
        SPIN(40);
        swapcontext(&at_second, &at_first);
    }
}

static void make(ucontext_t *context, void (*function)(void)) {
    getcontext(context);
    context->uc_stack.ss_size = 1 << 16;
    context->uc_stack.ss_sp = malloc(1 << 16);
    context->uc_link = &at_main;
    makecontext(context, function, 0);
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atol(argv[1]) : 1000;
    make(&at_first, first);
    make(&at_second, second);
    swapcontext(&at_main, &at_first);
}
