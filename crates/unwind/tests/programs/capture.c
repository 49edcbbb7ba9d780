/* Captures its own registers and stack at some depth, and what backtrace() says of it: for
   tests/aarch64.rs, which runs it in an emulator. Writes, each as 8 bytes: x0 to x30, sp, pc;
   the number of return addresses, and these; the number of stack bytes, and these. */
#include <execinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static uint64_t stack_end;
static volatile int sink;

static void put(const void *bytes, size_t size) {
    for (const char *at = bytes; size > 0;) {
        ssize_t written = write(1, at, size);
        if (written <= 0)
            _exit(1);
        at += written;
        size -= (size_t)written;
    }
}

NOINLINE static int capture(void) {
    uint64_t registers[33] = {0};
    __asm__ volatile("stp x19, x20, [%0, 152]\n stp x21, x22, [%0, 168]\n stp x23, x24, [%0, 184]\n"
                     "stp x25, x26, [%0, 200]\n stp x27, x28, [%0, 216]\n stp x29, x30, [%0, 232]\n"
                     "mov x9, sp\n adr x10, .\n stp x9, x10, [%0, 248]"
                     : : "r"(registers) : "x9", "x10", "memory");
    void *addresses[256];
    uint64_t count = (uint64_t)backtrace(addresses, 256);
    uint64_t size = stack_end - registers[31];
    put(registers, sizeof registers);
    put(&count, 8);
    put(addresses, count * 8);
    put(&size, 8);
    put((void *)registers[31], size);
    return sink;
}

NOINLINE static int recurse(int depth) {
    volatile char local[40];
    local[depth % 40] = (char)depth;
    return depth == 0 ? capture() : recurse(depth - 1) + local[depth % 40];
}

NOINLINE static int variable_length(int n) {
    volatile int list[n];
    list[n / 2] = recurse(3);
    return list[n / 2] + recurse(2);
}

NOINLINE static int large(int n) {
    volatile char buffer[5000];
    buffer[n] = 1;
    return variable_length(n) + buffer[n / 2];
}

static int compare(const void *a, const void *b) {
    sink += large(7);
    return *(const int *)a - *(const int *)b;
}

int main(void) {
    int list[] = {3, 1, 2};
    stack_end = (uint64_t)__builtin_frame_address(0) + 4096;
    sink = variable_length(5);
    qsort(list, 3, sizeof *list, compare);
    return 0;
}
