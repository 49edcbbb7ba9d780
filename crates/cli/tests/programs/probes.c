/*
 * A program with two probes as `sys/sdt.h` makes them, written out so that no header is needed: `test:begun`
 * without a counter and `test:step` with one. Once it gets a byte on standard input, it comes to
 * `begun` once and 500 times to `step`, of which it skips those while its counter is 0.
 */
#include <unistd.h>

__attribute__((section(".probes"))) volatile unsigned short test_step_semaphore;

/* The note: sizes of name and description, its type; then addresses and texts. */
#define PROBE(name, semaphore)                                                                     \
    __asm__ volatile("990: nop\n"                                                                  \
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"                                  \
                     ".balign 4\n"                                                                 \
                     ".4byte 992f-991f, 994f-993f, 3\n"                                            \
                     "991: .asciz \"stapsdt\"\n"                                                   \
                     "992: .balign 4\n"                                                            \
                     "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                           \
                     ".asciz \"test\"\n"                                                           \
                     ".asciz \"" name "\"\n"                                                       \
                     ".asciz \"\"\n"                                                               \
                     "994: .balign 4\n"                                                            \
                     ".popsection\n"                                                               \
                     ".ifndef _.stapsdt.base\n"                                                    \
                     ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"       \
                     ".weak _.stapsdt.base\n"                                                      \
                     ".hidden _.stapsdt.base\n"                                                    \
                     "_.stapsdt.base: .space 1\n"                                                  \
                     ".size _.stapsdt.base, 1\n"                                                   \
                     ".popsection\n"                                                               \
                     ".endif\n")

__attribute__((noinline)) void begins(void) {
    PROBE("begun", "0");
}

__attribute__((noinline)) void steps(void) {
    if (test_step_semaphore)
        PROBE("step", "test_step_semaphore");
}

/* Calls itself, to this depth. */
__attribute__((noinline, noclone)) int nests(int depth) {
    volatile int below = depth ? nests(depth - 1) : 0;
    return below + 1;
}

int main(void) {
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    begins();
    for (int i = 0; i < 500; i++)
        steps();
    return nests(4) != 5;
}
