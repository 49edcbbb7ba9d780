/* The code that tests/step.rs walks through: calls of all kinds, each instruction of them. */
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile int sink;

NOINLINE static int leaf(int x) { return x * 31 + sink; }

NOINLINE static int recurse(int depth) {
    volatile char local[40];
    local[depth % 40] = (char)depth;
    if (depth == 0)
        return leaf(local[0]);
    return recurse(depth - 1) + local[depth % 40];
}

/* The frame is found through rbp, or r10 while the stack is aligned. */
NOINLINE static int aligned(int n) {
#ifndef NO_REALIGN
    _Alignas(64)
#endif
    volatile int local[16];
    volatile int *dynamic = alloca((size_t)n * sizeof(int));
    for (int i = 0; i < n; i++)
        dynamic[i] = local[i % 16] = leaf(i);
    return dynamic[n - 1] + local[3];
}

NOINLINE static int variable_length(int n) {
    volatile int list[n];
    for (int i = 0; i < n; i++)
        list[i] = leaf(i) + recurse(2);
    return list[n / 2];
}

/* Enough values in use to need all preserved registers, and arguments on the stack. */
NOINLINE static int many(int a, int b, int c, int d, int e, int f, int g, int h) {
    int r = leaf(a) ^ leaf(b), s = leaf(c) + r, t = leaf(d) - s, u = leaf(e) * t;
    int v = leaf(f) + u, w = leaf(g) - v;
    return r + s * 2 + t * 3 + u * 5 + v * 7 + w * 11 + leaf(h);
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* A tail call: this function's frame goes before the next one's comes. */
NOINLINE static int tail(int x) { return leaf(x + 1); }

NOINLINE static int variadic(int count, ...) {
    va_list list;
    va_start(list, count);
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += va_arg(list, double);
    va_end(list);
    return (int)sum;
}

int main(void) {
    int list[] = {5, 3, 9, 1, 7, 2};
    char text[64];
    struct timespec now;
    sink = recurse(10) + aligned(20) + variable_length(5) + many(1, 2, 3, 4, 5, 6, 7, 8) + tail(3);
    sink += variadic(3, 1.0, 2.0, 3.0);
    qsort(list, sizeof list / sizeof *list, sizeof *list, compare);
    snprintf(text, sizeof text, "%d %s %.3f", list[2], "text", 1.5);
    sink += (int)strlen(text);
    char *copy = strdup(text);
    sink += (int)strtol(copy, NULL, 10);
    free(copy);
    clock_gettime(CLOCK_MONOTONIC, &now);
    sink += (int)now.tv_sec;
    return 0;
}
