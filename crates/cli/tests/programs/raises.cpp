// A program that does little but throw exceptions through some frames, and clean up on the way: most of
// its time is in the C++ runtime, which looks for handlers, and goes on from one cleanup to the next.
//
//   main → catches → descends … → thrower
#include <cstdlib>

static volatile long cleaned;

struct Cleanup {
    ~Cleanup() { cleaned = cleaned + 1; }
};

[[gnu::noinline]] static void thrower() { throw 1; }

[[gnu::noinline]] static void descends(int depth) {
    Cleanup cleanup;
    if (depth == 0)
        thrower();
    else
        descends(depth - 1);
}

[[gnu::noinline]] static void catches() {
    try {
        descends(8);
    } catch (int) {
    }
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? std::atol(argv[1]) : 1000;
    for (long round = 0; round < 20 * rounds; round++)
        catches();
}
