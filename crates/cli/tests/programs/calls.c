/* Two paths of calls with frame pointers, and page faults in one of them; as often as asked for. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

static volatile uint64_t sink;

__attribute__((noinline)) static uint64_t spin(uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += i * i ^ sum;
    return sum;
}

__attribute__((noinline)) static uint64_t left(int depth)
{
    return depth == 0 ? spin(100000) : left(depth - 1) + 1;
}

__attribute__((noinline)) static uint64_t right(int depth)
{
    if (depth > 0)
        return right(depth - 1) + 2;
    /* Mapped anew each time, so that there are far more faults here than at the program's start. */
    size_t size = 1 << 17;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 0;
    for (size_t at = 0; at < size; at += 4096)
        memory[at] = (char)at;
    uint64_t sum = spin(50000) + (uint64_t)memory[size / 2];
    munmap(memory, size);
    return sum;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < rounds; i++)
        sink += left(3 + i % 3) + right(2 + i % 4);
    return 0;
}
