/*
 * Functions that are called with numbers, texts and memory, and return: deep ones, and one with more parameters than there are
 * registers. Each says at its return what it was called with, what is at its address then, and what it returns.
 */
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

struct request {
    long id;
    const char *name;
};

static long total;

NOINLINE long handle(struct request *request, int flags, double weight, char kind, long a, long b, long on_stack) {
    long result = flags * 10 + kind + (long)(weight * 2);

    request->id += a + b + on_stack;
    total += result;
    printf("handle %d %ld %s %d %ld %ld %ld %ld\n", flags, request->id, request->name, kind, b, on_stack, total, result);
    return result;
}

NOINLINE long deep(long depth) {
    long result = depth ? deep(depth - 1) + depth : 1;

    printf("deep %ld %ld\n", depth, result);
    return result;
}

int main(int argc, char **argv) {
    static const char *names[] = { "zero", "one", "two" };
    int count = argc > 1 ? atoi(argv[1]) : 1;

    for (int i = 0; i < count; i++) {
        struct request request = { i, names[i % 3] };

        handle(&request, i - 2, i + 0.5, 'a' + i % 26, i, 2 * i, 3 * i);
    }
    deep(count);
    return 0;
}
