// Signal handlers that have a stack of their own, most of the time. The tree is known:
//
//   main                          total 100
//     one                         total  40
//       (interrupted) handler     total  30   self  10
//         handled                 self    20
//                                 self    10
//     two                         total  60
//       (interrupted) handler     total  30   self  10
//         handled                 self    20
//                                 self    30
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "units.h"

// Long enough for a recorder to see a stack before it has changed.
#define LONG 300

__attribute__((noinline)) static void handled(void) { SPIN(20 * LONG); }

static void handler(int signal) {
    (void)signal;
    SPIN(10 * LONG);
    handled();
    __asm__ volatile("");
}

// Interrupts itself, between two instructions.
__attribute__((noinline)) static void one(void) {
    SPIN(10 * LONG);
    __asm__ volatile("int3");
}

__attribute__((noinline)) static void two(void) {
    SPIN(30 * LONG);
    __asm__ volatile("int3");
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 10;
    stack_t stack = {.ss_size = 1 << 16, .ss_sp = malloc(1 << 16)};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGTRAP, &action, NULL);
    for (long round = 0; round < rounds; round++) {
        one();
        two();
    }
    // The process must live while its memory is read.
    sleep(2);
}
