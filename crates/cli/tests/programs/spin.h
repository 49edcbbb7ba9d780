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

/* With optimization, functions that call nothing have no frame, asked for or not, unless something needs its address. */
#ifdef KEEP_FRAME
#define FRAME() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))
#else
#define FRAME() (void)0
#endif

/* A macro, so that it is nobody's callee. The chain of multiplications can neither be shortened nor run
 * in parallel. */
#define SPIN(units)                                                                                \
    do {                                                                                           \
        uint64_t x = sink;                                                                         \
        FRAME();                                                                                   \
        for (long i = 0; i < (units) * (long)UNIT; i++) {                                          \
            x = x * 6364136223846793005u + 1442695040888963407u;                                   \
            __asm__ volatile("" : "+r"(x));                                                        \
        }                                                                                          \
        sink = x;                                                                                  \
    } while (0)

#define NOINLINE __attribute__((noinline))
