// A unit of work: the same loop everywhere, so that the share of each function is the share of its units.
// A macro, so that it is nobody's callee.
static volatile unsigned long sink;

#define SPIN(units)                                                                                \
    do {                                                                                           \
        unsigned long x = sink;                                                                    \
        for (long i = 0; i < (units) * 4000L; i++) {                                               \
            x = x * 6364136223846793005u + 1442695040888963407u;                                   \
            __asm__ volatile("" : "+r"(x));                                                        \
        }                                                                                          \
        sink = x;                                                                                  \
    } while (0)
