/* Two paths of calls with frame pointers, and page faults in one of them. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
    size_t size = 1 << 20;
    char *memory = malloc(size);
    for (size_t at = 0; at < size; at += 4096)
        memory[at] = (char)at;
    uint64_t sum = spin(50000) + (uint64_t)memory[size / 2];
    free(memory);
    return sum;
}

int main(void)
{
    for (int i = 0; i < 8000; i++)
        sink += left(3 + i % 3) + right(2 + i % 4);
    return 0;
}
