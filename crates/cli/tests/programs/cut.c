/*
 * Works in a library, and cuts this off while it does: what it needs of it to run is still there. Arguments: the library, and
 * its new size, bytes. With LIBRARY this is the library.
 */
#include <time.h>

static long used(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

#ifdef LIBRARY

__attribute__((noinline)) void work(long time) {
    for (long end = used() + time; used() < end;)
        for (volatile int i = 0; i < 20000; i++) {
        }
}

#else

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    (void)argc;
    void *library = dlopen(argv[1], RTLD_NOW);
    void (*work)(long) = library ? (void (*)(long))dlsym(library, "work") : 0;
    if (!work)
        return 1;
    work(300000000);
    if (truncate(argv[1], atol(argv[2])))
        return 2;
    work(300000000);
    return 0;
}

#endif
