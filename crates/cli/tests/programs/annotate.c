// Functions to annotate: loops, branches, and inlined calls, so that ten functions take most of the time.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline uint32_t mix(uint32_t x) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return x;
}

static inline uint32_t pick(const uint32_t *table, uint32_t x) {
    return table[x & 1023] + (x >> 3);
}

__attribute__((noinline)) uint32_t fill(uint32_t *table, uint32_t seed) {
    for (int i = 0; i < 1024; i++) {
        seed = mix(seed);
        table[i] = seed;
    }
    return seed;
}

__attribute__((noinline)) uint32_t sum(const uint32_t *table, uint32_t seed) {
    uint32_t all = 0;
    for (int i = 0; i < 1024; i++) {
        seed = mix(seed);
        if (seed & 1)
            all += pick(table, seed);
        else
            all ^= seed % 1000003;
    }
    return all;
}

__attribute__((noinline)) uint32_t collatz(uint32_t n) {
    uint32_t steps = 0;
    while (n != 1 && steps < 500) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        steps++;
    }
    return steps;
}

__attribute__((noinline)) double series(uint32_t n) {
    double all = 0;
    for (uint32_t i = 1; i < 200; i++)
        all += 1.0 / (i + n % i);
    return all;
}

__attribute__((noinline)) uint32_t bits(const uint32_t *table) {
    uint32_t all = 0;
    for (int i = 0; i < 1024; i++)
        for (uint32_t x = table[i]; x; x &= x - 1)
            all++;
    return all;
}

__attribute__((noinline)) void sort(uint32_t *table, int n) {
    for (int i = 1; i < n; i++) {
        uint32_t x = table[i];
        int at = i;
        for (; at > 0 && table[at - 1] > x; at--)
            table[at] = table[at - 1];
        table[at] = x;
    }
}

int main(void) {
    uint32_t *table = malloc(1024 * sizeof *table);
    uint32_t all = 1;
    double sums = 0;
    for (int i = 0; i < 9000; i++) {
        all += fill(table, all | 1);
        all += sum(table, all | 1);
        for (int j = 0; j < 10; j++)
            all += collatz(all >> 4 | 1);
        for (int j = 0; j < 10; j++)
            sums += series(all + j);
        all += bits(table);
        sort(table, 150);
    }
    printf("%u %f\n", all, sums);
    free(table);
}
