// Strides through an array of 4 MiB, in steps of 4, 8 and 16 KiB by turns. Usage: stride ROUNDS
#include <stdio.h>
#include <stdlib.h>

static unsigned char array[1 << 22];

static long walk(unsigned char *from, unsigned char *to, long step) {
    long sum = 0;
    for (unsigned char *p = from; p < to; p += step)
        sum += *p;
    return sum;
}

int main(int count, char **words) {
    long rounds = count > 1 ? atol(words[1]) : 3, sum = 0;
    for (long round = 0; round < rounds; round++)
        sum += walk(array, array + sizeof(array), 4096 << round % 3);
    printf("%ld\n", sum);
}
