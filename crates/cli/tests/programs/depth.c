/*
 * A program that works at the bottom of a recursion, as deep as its first argument says, to which two ways lead,
 * as often as the second says, or for ever:
 *
 *   main
 *     left → recurses → … → recurses → bottom     70
 *     right → recurses → … → recurses → ground    30
 */
#include <stdlib.h>

#include "spin.h"

// Neither made one with another of the same code, nor copied for a constant argument.
#define OWN_CODE __attribute__((noipa))

static OWN_CODE void bottom(long units) {
    SPIN(units);
}

static OWN_CODE void ground(long units) {
    SPIN(units);
}

static NOINLINE long recurses(long depth, long units) {
    if (!depth && units == 700)
        bottom(units);
    else if (!depth)
        ground(units);
    else
        depth += recurses(depth - 1, units);
    return depth;
}

static NOINLINE long left(long depth) {
    return recurses(depth, 700);
}

static NOINLINE long right(long depth) {
    return recurses(depth, 300);
}

int main(int argc, char **argv) {
    long depth = argc > 1 ? atol(argv[1]) : 3000;

    for (long rounds = argc > 2 ? atol(argv[2]) : -1; rounds != 0; rounds--) {
        begin_round();
        sink += (uint64_t)(left(depth) + right(depth));
    }
}
