/*
 * As a library: allocation functions that pass calls on to the C library's, as those of memory debuggers do, with a note of the size
 * before each block. As a program that such a library is preloaded into: asks for memory 100 times once it gets a byte on standard
 * input and the library's `malloc` has a breakpoint.
 */
#define _GNU_SOURCE
#include "breakpoints.h"
#include <dlfcn.h>
#include <stdlib.h>

#ifdef LIBRARY

enum { NOTE = 16 };

static void *note(size_t *block, size_t size) {
    if (block == NULL)
        return NULL;
    *block = size;
    return (char *)block + NOTE;
}

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (next == NULL)
        next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return note(next(size + NOTE), size);
}

void *calloc(size_t count, size_t size) {
    void *place = malloc(count * size);
    return place ? memset(place, 0, count * size) : NULL;
}

void *realloc(void *old, size_t size) {
    void *place = malloc(size);
    if (place != NULL && old != NULL) {
        size_t before = *(size_t *)((char *)old - NOTE);
        memcpy(place, old, before < size ? before : size);
    }
    return place;
}

/* Nothing is given back: a block may be the loader's. */
void free(void *place) { (void)place; }

#else

static void *volatile kept;

#define ASKS(name, call)                                                                                               \
    __attribute__((noinline)) void name(void) {                                                                        \
        kept = call;                                                                                                   \
        __asm__ volatile("" ::: "memory");                                                                             \
    }

ASKS(by_malloc, malloc(100))
ASKS(by_calloc, calloc(11, 10))
ASKS(by_realloc, realloc(kept, 120))

int main(void) {
    char byte;
    void *const own[] = {(void *)malloc};
    if (read(STDIN_FILENO, &byte, 1) != 1 || !wait_for_breakpoints(own, 1, NULL))
        return 1;
    for (int i = 0; i < 100; i++) {
        by_malloc();
        by_calloc();
        by_realloc();
    }
    return 0;
}

#endif
