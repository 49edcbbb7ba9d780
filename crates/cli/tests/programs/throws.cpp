/*
 * A program that does little else than throw and catch exceptions, through the same frames on two ways, one
 * of which is taken three times as often:
 *
 *   main                                  total 100
 *     often                               total  75
 *       catches → passes → … → throws     total  75
 *     seldom                              total  25
 *       catches → passes → … → throws     total  25
 */
#include <stdexcept>

#include "spin.h"

struct Guard {
    /* Something to do while the stack is unwound. */
    ~Guard() {
        SPIN(1);
    }
};

NOINLINE void throws(int n) {
    Guard guard;
    if (n >= 0)
        throw std::runtime_error("known");
}

NOINLINE void passes(int n, int depth) {
    Guard guard;
    if (depth)
        passes(n, depth - 1);
    else
        throws(n);
}

NOINLINE int catches(int n) {
    try {
        passes(n, 4);
    } catch (const std::exception &error) {
        return error.what()[0];
    }
    return 0;
}

NOINLINE int often(int n) {
    int sum = 0;
    for (int i = 0; i < 3; i++)
        sum += catches(n);
    return sum;
}

NOINLINE int seldom(int n) {
    return catches(n);
}

int main(int argc, char **) {
    int sum = 0;
    for (;;)
        sum += often(argc) + seldom(argc);
    return sum;
}
