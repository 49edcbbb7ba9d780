/*
 * A program that waits, and knows how long in which function. It starts when it gets a byte
 * on standard input, and in the end writes for each function the nanoseconds that passed in it while
 * its thread did not run, by whatever cause: the clock's less those of the thread's CPU time.
 *
 * Another thread waits in `forever` all the time.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int pipes[2];

static void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* The empty assembly after a call keeps it from becoming a jump. */
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

/* Each measures itself, so that what it measures is recorded as its own. */
__attribute__((noinline)) void sleeps(uint64_t *total) {
    uint64_t start = not_running();
    sleep_ms(30);
    *total += not_running() - start;
    NO_TAIL_CALL;
}

__attribute__((noinline)) void reads(uint64_t *total) {
    uint64_t start = not_running();
    char byte;
    if (read(pipes[0], &byte, 1) != 1)
        _exit(1);
    *total += not_running() - start;
    NO_TAIL_CALL;
}

__attribute__((noinline)) void locks(uint64_t *total) {
    uint64_t start = not_running();
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    *total += not_running() - start;
    NO_TAIL_CALL;
}

static pthread_barrier_t barrier;

/* Makes `locks` wait for 20 ms, and `reads` for 10. */
__attribute__((noinline)) void *partner(void *unused) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        pthread_barrier_wait(&barrier);
        sleep_ms(20);
        pthread_mutex_unlock(&mutex);
        pthread_barrier_wait(&barrier);
        sleep_ms(10);
        if (write(pipes[1], "x", 1) != 1)
            return unused;
    }
}

__attribute__((noinline)) void *forever(void *unused) {
    pause();
    return unused;
}

int main(void) {
    uint64_t slept = 0, locked = 0, read_ = 0;
    pthread_t thread;
    char byte;

    pthread_create(&thread, NULL, forever, NULL);
    if (pipe(pipes) != 0 || pthread_barrier_init(&barrier, NULL, 2) != 0 ||
        read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    pthread_create(&thread, NULL, partner, NULL);
    for (int i = 0; i < 30; i++) {
        sleeps(&slept);
        pthread_barrier_wait(&barrier);
        locks(&locked);
        pthread_barrier_wait(&barrier);
        reads(&read_);
    }
    printf("sleeps %lu\nlocks %lu\nreads %lu\n", slept, locked, read_);
    return 0;
}
