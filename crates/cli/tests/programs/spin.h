/*
 * Units of work that all take the same time, so that the share of a function is the share of its units.
 * Programs with this are compiled with -fno-optimize-sibling-calls: a call that has become a jump leaves no
 * frame of its caller.
 */
#include <stdint.h>

#define UNIT unit_length

static long unit_length = 4000;
static volatile uint64_t sink;

/* Another length for the units of the next round. Rounds that are all as long may be in step with the clock that samples them,
 * which then finds the same functions each time; within a round all units are as long, so that shares stay what they are. */
static inline void begin_round(void) {
    static uint64_t chance;

    chance = chance * 6364136223846793005u + 1442695040888963407u;
    unit_length = 2000 + (long)(chance >> 33) % 4001;
}

/* Without optimization a variable lies in memory, and how long a store that is loaded again takes depends on the processor and
 * on where it lies. C++ has no such keyword. */
#ifdef __cplusplus
#define IN_REGISTER
#else
#define IN_REGISTER register
#endif

/* A macro, so that it is nobody's callee. The chain of multiplications can neither be shortened nor run
 * in parallel. */
#define SPIN(units)                                                                                \
    do {                                                                                           \
        IN_REGISTER uint64_t x = sink;                                                             \
        IN_REGISTER long left = (units) * (long)UNIT;                                              \
        while (left-- > 0) {                                                                       \
            x = x * 6364136223846793005u + 1442695040888963407u;                                   \
            __asm__ volatile("" : "+r"(x));                                                        \
        }                                                                                          \
        sink = x;                                                                                  \
    } while (0)

#define NOINLINE __attribute__((noinline))
