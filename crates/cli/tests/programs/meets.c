// Has libraries made of rows.c that it never calls, and waits for a byte on standard input. Then it loads
// one more, the file that is given, and calls its function `three` for ever.
//
//   gcc -O2 -fomit-frame-pointer -o meets meets.c -Wl,--no-as-needed -L. -lone -ltwo -Wl,-rpath,'$ORIGIN'

#include <dlfcn.h>
#include <unistd.h>

volatile unsigned long sum;

static __attribute__((noinline)) void work(unsigned long a)
{
    for (int i = 0; i < 100000; i++)
        sum += a * i;
}

int main(int argc, char **argv)
{
    void (*three)(void (*)(unsigned long), unsigned long);
    void *library;
    char byte;

    if (read(0, &byte, 1) != 1)
        return 1;
    library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        return 2;
    three = dlsym(library, "three");
    three(work, argc);
    return 0;
}
