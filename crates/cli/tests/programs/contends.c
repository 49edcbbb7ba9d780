/*
 * Four threads want one lock of the kernel: that of the process's mappings, which each holds while it gives
 * pages back. After two seconds, or as many as the argument says, they end.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double end;

__attribute__((noinline)) void maps(void) {
    const size_t size = 4 << 20;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    munmap(memory, size);
    __asm__ volatile("" ::: "memory");
}

static void *work(void *unused) {
    while (now() < end)
        maps();
    return unused;
}

int main(int count, char **arguments) {
    pthread_t threads[4];

    end = now() + (count > 1 ? atof(arguments[1]) : 2);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
