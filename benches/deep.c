// Works at the end of a stack of 28 frames: 24 functions below main and the three that start it. Each
// keeps something over the call of the next, so that registers are to be restored in each frame.
//
//   gcc -O2 -fomit-frame-pointer -o deep deep.c
#define LEVEL(NAME, NEXT)                                                                          \
    static __attribute__((noinline)) unsigned long NAME(unsigned long a, unsigned long b)          \
    {                                                                                              \
        unsigned long c = a * 3 + b, d = NEXT(a ^ c, b + 1);                                       \
        return NEXT##_once(c, d) + a * d + b;                                                      \
    }                                                                                              \
    static __attribute__((noinline)) unsigned long NAME##_once(unsigned long a, unsigned long b)   \
    {                                                                                              \
        return a * 5 + b;                                                                          \
    }

static __attribute__((noinline)) unsigned long work(unsigned long a, unsigned long b)
{
    for (volatile unsigned long i = 0; i < 1000000; i++)
        a = a * 6364136223846793005ul + b;
    return a;
}

static __attribute__((noinline)) unsigned long work_once(unsigned long a, unsigned long b)
{
    return a + b;
}

LEVEL(f23, work)
LEVEL(f22, f23)
LEVEL(f21, f22)
LEVEL(f20, f21)
LEVEL(f19, f20)
LEVEL(f18, f19)
LEVEL(f17, f18)
LEVEL(f16, f17)
LEVEL(f15, f16)
LEVEL(f14, f15)
LEVEL(f13, f14)
LEVEL(f12, f13)
LEVEL(f11, f12)
LEVEL(f10, f11)
LEVEL(f9, f10)
LEVEL(f8, f9)
LEVEL(f7, f8)
LEVEL(f6, f7)
LEVEL(f5, f6)
LEVEL(f4, f5)
LEVEL(f3, f4)
LEVEL(f2, f3)
LEVEL(f1, f2)

int main(int argc, char **argv)
{
    unsigned long sum = argc;

    while (sum += f1(sum, 1) | 1)
        ;
    return f1_once(sum, 0) == 0;
}
