/*
 * Two libraries that are loaded and unloaded by turns, mostly to the same address: the first works 5 ms each time,
 * the second 3 ms. Arguments: the libraries, and how many turns. In the end it writes how many of the turns had
 * the address of the first one. With LIBRARY this is such a library, whose function has that name.
 */
#include <time.h>

static long used(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

#ifdef LIBRARY

__attribute__((noinline)) void LIBRARY(long time) {
    for (long end = used() + time; used() < end;)
        for (volatile int i = 0; i < 20000; i++) {
        }
}

void work(long time) { LIBRARY(time); }

#else

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    (void)argc;
    void *place = 0;
    int same = 0, turns = atoi(argv[3]);
    for (int turn = 0; turn < turns; turn++) {
        void *library = dlopen(argv[1 + turn % 2], RTLD_NOW);
        if (!library)
            return 1;
        void (*work)(long) = (void (*)(long))dlsym(library, "work");
        place = place ? place : (void *)work;
        same += place == (void *)work;
        work(turn % 2 ? 3000000 : 5000000);
        dlclose(library);
    }
    printf("%d\n", same);
}

#endif
