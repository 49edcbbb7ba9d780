// Two of Boost's fibers that yield to one another. The tree is known, but for the scheduler's part:
//
//   first   total 60, self 20
//     deep  self  40
//   second  self  40
#include <boost/fiber/all.hpp>
#include <cstdlib>

#include "units.h"

static long rounds;

__attribute__((noinline)) static void deep() { SPIN(40); }

__attribute__((noinline)) static void first() {
    begin_round();
    SPIN(20);
    deep();
    __asm__ volatile("");
}

__attribute__((noinline)) static void second() {
    SPIN(40);
    __asm__ volatile("nop");
}

template <void work()> static void fiber() {
    for (long round = 0; round < rounds; round++) {
        work();
        boost::this_fiber::yield();
    }
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? std::atol(argv[1]) : 1000;
    boost::fibers::fiber one(fiber<first>), two(fiber<second>);
    one.join();
    two.join();
}
