/*
 * A program that works at the bottom of a recursion, as deep as its argument says, to which two ways lead:
 *
 *   main
 *     left → recurses → … → recurses → bottom     70
 *     right → recurses → … → recurses → bottom    30
 */
#include <stdlib.h>

#include "spin.h"

static NOINLINE void bottom(long units) {
    SPIN(units);
}

static NOINLINE long recurses(long depth, long units) {
    if (!depth)
        bottom(units);
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

    for (;;)
        sink += (uint64_t)(left(depth) + right(depth));
}
