/*
 * A program of Boost's fibers, each with a stack of its own, which yield to each other:
 *
 *   one thread
 *     left → work          self 60
 *     right                self 10
 *       work               self 30
 */
#include <boost/fiber/all.hpp>

#include "spin.h"

extern "C" {
NOINLINE void work(int units) {
    SPIN(units);
}

NOINLINE void left() {
    work(60);
}

NOINLINE void right() {
    work(30);
    SPIN(10);
}
}

int main() {
    boost::fibers::fiber one([] {
        for (;;) {
            left();
            boost::this_fiber::yield();
        }
    });
    boost::fibers::fiber two([] {
        for (;;) {
            right();
            boost::this_fiber::yield();
        }
    });
    one.join();
    two.join();
}
