/* Moves its code to memory of its own, as programs do that want it in huge pages, and then works in it for the processor time of
 * its argument, in milliseconds: 75 parts in `hot` and 25 in `warm`. Writes a line when it begins. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"

/* From one multiple of 2 MiB to the next but one. */
asm(".text; .p2align 21; .globl moved_begin; moved_begin:");

__attribute__((noinline)) unsigned hot(unsigned long times) {
    unsigned x = 1;
    for (unsigned long i = 0; i < times; i++)
        x = x * 1664525 + (x >> 3);
    return x;
}
__attribute__((noinline)) unsigned warm(unsigned long times) {
    unsigned x = 1;
    for (unsigned long i = 0; i < times; i++)
        x = x * 1664525 + (x >> 3);
    return x;
}
__attribute__((noinline)) unsigned work(uint64_t nanoseconds) {
    unsigned sum = 0;
    uint64_t chance = 0;
    uint64_t end = read_clock(CLOCK_PROCESS_CPUTIME_ID) + nanoseconds;
    while (read_clock(CLOCK_PROCESS_CPUTIME_ID) < end) {
        /* Rounds of different lengths: equal ones can be in step with the clock that samples them. */
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        unsigned long times = 125000 + (chance >> 33) % 250000;
        sum += hot(3 * times) + warm(times);
    }
    return sum;
}

asm(".p2align 21; .globl moved_end; moved_end:");

extern char moved_begin[], moved_end[];

int main(int argc, char **argv) {
    size_t size = (size_t)(moved_end - moved_begin);
    void *copy = malloc(size);
    if (!copy)
        return 1;
    memcpy(copy, moved_begin, size);
    void *at = mmap(moved_begin, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at != moved_begin)
        return 1;
    memcpy(moved_begin, copy, size);
    puts("moved");
    fflush(stdout);
    volatile unsigned sum = work((argc > 1 ? strtoull(argv[1], 0, 10) : 500) * 1000000);
    (void)sum;
    return 0;
}
