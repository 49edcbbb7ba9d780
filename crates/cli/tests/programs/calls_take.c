// Calls that take known times: 10 of 1 ms and 10 of 10 ms by turns, each with its route, and a recursion 5 deep, of which each
// call but the innermost sleeps for 2 ms.
#include <unistd.h>

__attribute__((noinline)) long nap(int microseconds, const char *route) {
    // The compiler leaves out what is not used.
    __asm__ volatile("" ::"r"(route));
    usleep(microseconds);
    return microseconds;
}

__attribute__((noinline)) long nest(int depth) {
    if (!depth)
        return 0;
    usleep(2000);
    return nest(depth - 1) + 1;
}

int main(void) {
    // In memory that was written to: the kernel waits for no page.
    char fast[] = "fast", slow[] = "slow";
    long sum = 0;
    for (int i = 0; i < 20; i++)
        sum += nap(i % 2 ? 10000 : 1000, i % 2 ? slow : fast);
    return sum + nest(4) == 1;
}
