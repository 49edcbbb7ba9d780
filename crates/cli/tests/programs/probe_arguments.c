/*
 * A program with a probe that has arguments, as `sys/sdt.h` makes it, at two places: `test:handled` with a number, a length, a text
 * and a sum. It prints what it hands over. Usage: probe_arguments NUMBER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The note: sizes of name and description, its type; then addresses and texts. The operands are what the compiler chooses. */
#define PROBE(number, length, text, sum)                                                           \
    __asm__ volatile("990: nop\n"                                                                  \
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"                                  \
                     ".balign 4\n"                                                                 \
                     ".4byte 992f-991f, 994f-993f, 3\n"                                            \
                     "991: .asciz \"stapsdt\"\n"                                                   \
                     "992: .balign 4\n"                                                            \
                     "993: .8byte 990b, _.stapsdt.base, 0\n"                                       \
                     ".asciz \"test\"\n"                                                           \
                     ".asciz \"handled\"\n"                                                        \
                     ".asciz \"-4@%k0 8@%1 8@%2 -8@%3\"\n"                                         \
                     "994: .balign 4\n"                                                            \
                     ".popsection\n"                                                               \
                     ".ifndef _.stapsdt.base\n"                                                    \
                     ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"       \
                     ".weak _.stapsdt.base\n"                                                      \
                     ".hidden _.stapsdt.base\n"                                                    \
                     "_.stapsdt.base: .space 1\n"                                                  \
                     ".size _.stapsdt.base, 1\n"                                                   \
                     ".popsection\n"                                                               \
                     ".endif\n" ::"nor"((int)(number)),                                            \
                     "nor"((unsigned long)(length)), "nor"(text), "nor"((long)(sum)))

static const char *const texts[] = {"alpha", "beta beta", "gamma.example.org"};

__attribute__((noinline)) static long handle(int number, long sum) {
    const char *text = texts[number % 3 < 0 ? 0 : number % 3];
    unsigned long length = strlen(text);
    sum -= number;
    PROBE(number, length, text, sum);
    printf("%d %lu %s %ld\n", number, length, text, sum);
    return sum;
}

int main(int count, char **words) {
    int requests = count > 1 ? atoi(words[1]) : 10;
    long sum = 100;
    for (int i = -3; i < requests; i++)
        sum = handle(i, sum);
    /* Constants. */
    PROBE(-7, 5, texts[0], 12);
    printf("-7 5 %s 12\n", texts[0]);
    return 0;
}
