// Calls one of three libraries made of rows.c, the one whose number is given, for ever.
//
//   gcc -O2 -fomit-frame-pointer -o meets meets.c -L. -lone -ltwo -lthree -Wl,-rpath,'$ORIGIN'

#include <stdlib.h>

void one(void (*)(unsigned long), unsigned long);
void two(void (*)(unsigned long), unsigned long);
void three(void (*)(unsigned long), unsigned long);

volatile unsigned long sum;

static __attribute__((noinline)) void work(unsigned long a)
{
    for (int i = 0; i < 100000; i++)
        sum += a * i;
}

int main(int argc, char **argv)
{
    void (*const libraries[])(void (*)(unsigned long), unsigned long) = {one, two, three};

    libraries[atoi(argv[1]) - 1](work, argc);
    return 0;
}
