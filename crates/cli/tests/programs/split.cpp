// A program whose call tree is known. Every unit of work is the same loop, so that the share of
// each function is the share of its units:
//
//   main                                     total 100
//     shapes::Circle::area (virtual)         total  50   self 20
//       shapes::detail::sum<double> (inlined) total 30   self 30
//     std::function → main::{lambda}         total  30   self 30
//     (anonymous namespace)::thrower         total  20   self 20, leaves by an exception
#include <cstdint>
#include <cstdlib>
#include <functional>

static volatile std::uint64_t sink;
static long unit = 4000;

// Rounds differ in length, so that they are not in step with the clock that samples them.
static void begin_round() {
    static std::uint64_t chance;
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    unit = 2000 + static_cast<long>(chance >> 33) % 4001;
}

// A macro, so that it is nobody's callee.
#define SPIN(units)                                                                                \
    do {                                                                                           \
        std::uint64_t x = sink;                                                                    \
        for (long i = 0; i < (units) * unit; i++) {                                               \
            x = x * 6364136223846793005u + 1442695040888963407u;                                   \
            __asm__ volatile("" : "+r"(x));                                                        \
        }                                                                                          \
        sink = x;                                                                                  \
    } while (0)

namespace shapes {
namespace detail {
template <typename T> [[gnu::always_inline]] inline void sum(T) { SPIN(30); }
} // namespace detail

struct Shape {
    virtual void area() = 0;
    virtual ~Shape() = default;
};

struct Circle : Shape {
    [[gnu::noinline]] void area() override {
        SPIN(20);
        detail::sum(1.0);
    }
};
} // namespace shapes

namespace {
[[gnu::noinline]] void thrower() {
    SPIN(20);
    throw 1;
}
} // namespace

int main(int argc, char **argv) {
    long rounds = argc > 1 ? std::atol(argv[1]) : 1000;
    shapes::Shape *volatile shape = new shapes::Circle;
    std::function<void()> function = [] { SPIN(30); };
    for (long round = 0; round < rounds; round++) {
        begin_round();
        shape->area();
        function();
        try {
            thrower();
        } catch (int) {
        }
    }
    delete shape;
}
