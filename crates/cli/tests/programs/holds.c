/*
 * Asks for memory, once it gets a byte on standard input, and gives most of it back.
 *
 * `keeps` keeps 100 times 1,000 bytes, `gives_back` nothing, `grows` what it makes of 1,000 bytes: 50,000;
 * `aligns` keeps 10 times 4,096. Its end is when it gets another byte.
 */
#include <stdlib.h>
#include <unistd.h>

static void *volatile kept[1000];

#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

__attribute__((noinline)) void keeps(int at) {
    kept[at] = malloc(1000);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void gives_back(void) {
    void *volatile memory = calloc(10, 1000);
    free(memory);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void grows(void) {
    void *volatile memory = malloc(1000);
    for (size_t size = 2000; size <= 50000; size += 1000)
        memory = realloc(memory, size);
    kept[999] = memory;
    NO_TAIL_CALL;
}

__attribute__((noinline)) void aligns(int at) {
    void *memory;
    if (posix_memalign(&memory, 4096, 4096) != 0)
        _exit(1);
    kept[at] = memory;
    NO_TAIL_CALL;
}

int main(void) {
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    for (int i = 0; i < 100; i++) {
        keeps(i);
        gives_back();
    }
    for (int i = 0; i < 10; i++)
        aligns(100 + i);
    grows();
    return read(STDIN_FILENO, &byte, 1) < 0;
}
