/*
 * Has a `malloc` and operators `new` that do not call it, as jemalloc, tcmalloc and mimalloc have them. Each is called 100 times for
 * bytes that no other is called for, once there is a byte on standard input and, with LATE in the environment, a breakpoint in each.
 */
#include "breakpoints.h"
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>

static char memory[8 << 20];
static std::size_t used;
static void *volatile kept;

#define OWN __attribute__((noinline))

static OWN void *carve(std::size_t size, std::size_t align) {
    used = (used + align - 1) / align * align;
    void *place = memory + used;
    used += size;
    return place;
}

extern "C" {
OWN void *malloc(std::size_t size) { return carve(size, 16); }
OWN void *calloc(std::size_t count, std::size_t size) { return carve(count * size, 16); }
OWN void *realloc(void *old, std::size_t size) { return old ? std::memcpy(carve(size, 16), old, 1) : carve(size, 16); }
OWN void free(void *place) { kept = place; }
}

OWN void *operator new(std::size_t size) { return carve(size, 16); }
OWN void *operator new[](std::size_t size) { return operator new(size); }
OWN void *operator new(std::size_t size, std::align_val_t align) { return carve(size, std::size_t(align)); }
OWN void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return carve(size, 16); }
OWN void operator delete(void *place) noexcept { kept = place; }
OWN void operator delete(void *place, std::size_t) noexcept { kept = place; }
OWN void operator delete[](void *place) noexcept { kept = place; }

#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")
#define ASKS(name, call)                                                                                               \
    extern "C" __attribute__((noinline)) void name(void) {                                                             \
        kept = call;                                                                                                   \
        NO_TAIL_CALL;                                                                                                  \
    }

ASKS(by_malloc, malloc(100))
ASKS(by_new, operator new(110))
ASKS(by_new_of_an_array, operator new[](120))
ASKS(by_new_of_lines, operator new(130, std::align_val_t(64)))
ASKS(by_new_that_does_not_throw, operator new(140, std::nothrow))

extern "C" __attribute__((noinline)) void given_back(void) {
    operator delete(operator new(150));
    operator delete(operator new(160), 160);
    operator delete[](operator new[](170));
    NO_TAIL_CALL;
}

int main() {
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    using size = std::size_t;
    void *const own[] = {
        reinterpret_cast<void *>(malloc),
        reinterpret_cast<void *>(static_cast<void *(*)(size)>(operator new)),
        reinterpret_cast<void *>(static_cast<void *(*)(size)>(operator new[])),
        reinterpret_cast<void *>(static_cast<void *(*)(size, std::align_val_t)>(operator new)),
        reinterpret_cast<void *>(static_cast<void *(*)(size, const std::nothrow_t &)>(operator new)),
    };
    if (getenv("LATE") != nullptr && !wait_for_breakpoints(own, sizeof own / sizeof *own, nullptr))
        return 1;
    for (int i = 0; i < 100; i++) {
        by_malloc();
        by_new();
        by_new_of_an_array();
        by_new_of_lines();
        by_new_that_does_not_throw();
        given_back();
    }
    return 0;
}
