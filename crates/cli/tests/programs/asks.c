/*
 * Once it gets a byte on standard input: calls `ask` 1,000 times, which asks for 1,000 bytes
 * each, and `touch`, which touches 500 pages of new memory.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void *volatile keep;

__attribute__((noinline)) void ask(void) {
    keep = malloc(1000);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void touch(void) {
    const size_t size = 500 * 4096;
    volatile char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* One page at a time, also where the kernel would give larger ones. */
    madvise((void *)memory, size, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < size; at += 4096)
        memory[at] = 1;
    __asm__ volatile("" ::: "memory");
}

int main(void) {
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    for (int i = 0; i < 1000; i++)
        ask();
    touch();
    return 0;
}
