/*
 * Has allocators of its own beside the C library's, by the names that jemalloc and mimalloc have in Rust programs. Asks each 100
 * times (or TIMES, in the environment) for bytes that no other asks for, once it gets a byte on standard input; half of the blocks
 * are given back. With the path of itself as a library, it loads that, whose functions ask for memory once they have breakpoints;
 * with LATE in the environment, so do its own.
 */
#include "breakpoints.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char memory[8 << 20];
static size_t used;
static void *volatile kept;

#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")
#define OWN static __attribute__((noinline, used))

OWN void *carve(size_t size, size_t align) {
    used = (used + align - 1) / align * align;
    /* Nobody looks into the blocks. */
    if (used + size > sizeof memory)
        used = 0;
    void *place = memory + used;
    used += size;
    return place;
}

OWN void *_rjem_malloc(size_t size) { return carve(size, 16); }
OWN void *_rjem_mallocx(size_t size, int flags) { return carve(size, (size_t)1 << flags); }
OWN void *_rjem_calloc(size_t count, size_t size) { return carve(count * size, 16); }
OWN void *_rjem_rallocx(void *old, size_t size, int flags) { return memcpy(carve(size, (size_t)1 << flags), old, 16); }
OWN void _rjem_sdallocx(void *place, size_t size, int flags) { kept = (char *)place + size + flags; }
OWN void *mi_malloc(size_t size) { return carve(size, 16); }
OWN void *mi_malloc_aligned(size_t size, size_t align) {
    char *place = mi_malloc(size + align - 1);
    NO_TAIL_CALL;
    return place + (-(uintptr_t)place & (align - 1));
}
OWN void *mi_reallocarray(void *old, size_t count, size_t size) { return old ? carve(count * size, 16) : NULL; }
OWN void mi_free(void *place) { kept = place; }

#define ASKS(name, call)                                                                                               \
    __attribute__((noinline)) void name(void) {                                                                        \
        kept = call;                                                                                                   \
        NO_TAIL_CALL;                                                                                                  \
    }

ASKS(by_malloc, malloc(100))
ASKS(by_jemalloc, _rjem_malloc(110))
ASKS(by_jemalloc_with_flags, _rjem_mallocx(120, 6))
ASKS(by_jemalloc_of_zeros, _rjem_calloc(13, 10))
ASKS(by_jemalloc_again, _rjem_rallocx(kept, 140, 6))
ASKS(by_mimalloc, mi_malloc(150))
ASKS(by_mimalloc_of_lines, mi_malloc_aligned(160, 64))
ASKS(by_mimalloc_of_an_array, mi_reallocarray(kept, 17, 10))

__attribute__((noinline)) void given_back(void) {
    _rjem_sdallocx(_rjem_malloc(180), 180, 0);
    mi_free(mi_malloc(190));
    NO_TAIL_CALL;
}

/* Whoever takes the stacks hears of this file by `by_malloc`. */
static bool is_watched(void) {
    void *const own[] = {_rjem_malloc, _rjem_mallocx, _rjem_calloc, _rjem_rallocx, mi_malloc, mi_malloc_aligned, mi_reallocarray};
    return wait_for_breakpoints(own, sizeof own / sizeof *own, by_malloc);
}

int main(int argc, char **argv) {
    char byte;
    if (argc > 1) {
        void *library = dlopen(argv[1], RTLD_NOW);
        int (*again)(int, char **) = library ? dlsym(library, "main") : NULL;
        return again ? again(0, argv) : 1;
    }
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    if ((argc == 0 || getenv("LATE") != NULL) && !is_watched())
        return 1;
    const char *times = getenv("TIMES");
    for (int i = 0; i < (times ? atoi(times) : 100); i++) {
        by_malloc();
        by_jemalloc();
        by_jemalloc_with_flags();
        by_jemalloc_of_zeros();
        by_jemalloc_again();
        by_mimalloc();
        by_mimalloc_of_lines();
        by_mimalloc_of_an_array();
        given_back();
    }
    return 0;
}
