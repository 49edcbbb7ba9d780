// A unit of work: the same loop everywhere, so that the share of each function is the share of its units.
// A macro, so that it is nobody's callee.
static volatile unsigned long sink;
static long unit = 4000;

// Another length for the units of the next round. Rounds that are all as long may be in step with the clock that samples them,
// which then finds the same functions each time; within a round all units are as long, so that shares stay what they are.
static inline void begin_round(void) {
    static unsigned long chance;

    chance = chance * 6364136223846793005u + 1442695040888963407u;
    unit = 2000 + (long)(chance >> 33) % 4001;
}

#define SPIN(units)                                                                                \
    do {                                                                                           \
        unsigned long x = sink;                                                                    \
        for (long i = 0; i < (units) * unit; i++) {                                               \
            x = x * 6364136223846793005u + 1442695040888963407u;                                   \
            __asm__ volatile("" : "+r"(x));                                                        \
        }                                                                                          \
        sink = x;                                                                                  \
    } while (0)
