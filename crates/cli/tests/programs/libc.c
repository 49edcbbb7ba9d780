/*
 * A program that calls the C library, from two places the same:
 *
 *   main                               total 100
 *     often                            total  75
 *       copies → memcpy                total  3a
 *       prints → snprintf → …          total  3b
 *     seldom                           total  25
 *       copies → memcpy                total   a
 *       prints → snprintf → …          total   b
 *
 * where a + b is 25: how long the library takes is its own affair.
 */
#include <stdio.h>
#include <string.h>

#include "spin.h"

static char from[65536], to[65536];

static NOINLINE void copies(void) {
    for (int i = 0; i < 8; i++) {
        memcpy(to, from, sizeof to - (size_t)i);
        __asm__ volatile("" ::: "memory");
    }
}

static NOINLINE void prints(void) {
    char text[64];

    for (int i = 0; i < 40; i++)
        sink += (uint64_t)snprintf(text, sizeof text, "%d %s %08lx %.3f", i, "words", (long)sink, 1.5 * i);
}

static NOINLINE void often(void) {
    for (int i = 0; i < 3; i++) {
        copies();
        prints();
    }
}

static NOINLINE void seldom(void) {
    copies();
    prints();
}

int main(void) {
    for (;;) {
        often();
        seldom();
    }
}
