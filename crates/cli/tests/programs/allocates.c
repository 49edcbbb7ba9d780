/*
 * Asks for memory by each function that gives it, each 100 times for bytes that no other asks for, once it gets
 * a byte on standard input. Nothing is given back.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile kept;

#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")
#define ASKS(name, call)                                                                                               \
    __attribute__((noinline)) void name(void) {                                                                        \
        kept = call;                                                                                                   \
        NO_TAIL_CALL;                                                                                                  \
    }

static char text[350];

ASKS(by_malloc, malloc(100))
ASKS(by_calloc, calloc(11, 10))
ASKS(by_realloc_of_nothing, realloc(NULL, 120))
ASKS(by_realloc, realloc(kept, 130))
ASKS(by_reallocarray_of_nothing, reallocarray(NULL, 14, 10))
ASKS(by_aligned_alloc, aligned_alloc(16, 160))
ASKS(by_aligned_alloc_of_pages, aligned_alloc(4096, 8192))
ASKS(by_memalign, memalign(8, 170))
ASKS(by_memalign_of_lines, memalign(64, 190))
ASKS(by_valloc, valloc(200))
ASKS(by_pvalloc, pvalloc(210))
ASKS(by_strdup, strdup(text))

__attribute__((noinline)) void by_posix_memalign(void) {
    void *memory;
    if (posix_memalign(&memory, 32, 220) != 0)
        _exit(1);
    kept = memory;
    NO_TAIL_CALL;
}

/* One after the other from one place, for as many bytes: each counts. */
__attribute__((noinline)) void by_turns(void) {
    for (int i = 0; i < 2; i++) {
        kept = realloc(NULL, 230);
        kept = strdup(text + 120);
        kept = realloc(NULL, 230);
        kept = malloc(230);
    }
    NO_TAIL_CALL;
}

int main(void) {
    char byte;
    memset(text, 'x', sizeof text - 1);
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    for (int i = 0; i < 100; i++) {
        by_malloc();
        by_calloc();
        by_realloc_of_nothing();
        by_realloc();
        by_reallocarray_of_nothing();
        by_aligned_alloc();
        by_aligned_alloc_of_pages();
        by_memalign();
        by_memalign_of_lines();
        by_valloc();
        by_pvalloc();
        by_strdup();
        by_posix_memalign();
        by_turns();
    }
    return 0;
}
