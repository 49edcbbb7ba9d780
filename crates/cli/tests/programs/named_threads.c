// Threads with names that a careless reader of lines would take for something else; each computes for a while, and opens files.
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile long sink;

static inline __attribute__((always_inline)) void inner(long rounds) {
    for (long round = 0; round < rounds; round++) sink += round * round % 7;
}

static inline __attribute__((always_inline)) void middle(long rounds) { inner(rounds); }

__attribute__((noinline)) void computes(long rounds) { middle(rounds); }

static void *run(void *name) {
    prctl(PR_SET_NAME, name);
    for (int time = 0; time < 300; time++) {
        computes(250000);
        int file = open("/dev/null", O_RDONLY);
        char bytes[8];
        if (read(file, bytes, sizeof bytes) < 0) return NULL;
        close(file);
    }
    return NULL;
}

int main(void) {
    char *names[] = {"two words", "a:b 12", "new\nline 1", "tab\t[001] 1.5:"};
    pthread_t threads[4];
    for (int at = 0; at < 4; at++)
        if (pthread_create(&threads[at], NULL, run, names[at])) return 1;
    for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);
    return 0;
}
