/*
 * Ten threads that wait, each in its own way, for so many seconds as its argument says, once it gets a byte on
 * standard input. Each has a name, and in the end its name is written, and the nanoseconds for which it did not run by
 * its own clocks, and how long it was there.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"

#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

static uint64_t end;
static int pipes[2][2];
static int file;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turn, over;

static uint64_t now(void) {
    return read_clock(CLOCK_MONOTONIC);
}

static void sleep_us(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* So that there are two stacks of which one is waited in for twice as long. */
__attribute__((noinline)) void once(long us) {
    sleep_us(us);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void twice(long us) {
    sleep_us(2 * us);
    NO_TAIL_CALL;
}

static void sleeps(long us) {
    while (now() < end)
        once(us);
}

static void sleeps_900ms(void) { sleeps(900000); }
static void sleeps_10ms(void) { sleeps(10000); }
static void sleeps_7ms(void) { sleeps(7000); }
static void sleeps_3ms(void) { sleeps(3000); }
static void sleeps_50us(void) { sleeps(50); }

static void sleeps_by_turns(void) {
    while (now() < end) {
        once(300);
        twice(300);
    }
}

static void takes_turns(int which) {
    pthread_mutex_lock(&mutex);
    while (!over) {
        while (turn != which && !over)
            pthread_cond_wait(&condition, &mutex);
        turn = !which;
        if (now() >= end)
            over = 1;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
        sleep_us(200);
        pthread_mutex_lock(&mutex);
    }
    pthread_mutex_unlock(&mutex);
}

static void waits_for_conditions(void) { takes_turns(0); }

static void hands_on(int to, char byte) {
    if (write(to, &byte, 1) != 1)
        exit(1);
}

static void reads_pipes(void) {
    char byte = 'x';
    while (now() < end) {
        hands_on(pipes[1][1], 'x');
        if (read(pipes[0][0], &byte, 1) != 1)
            exit(1);
        sleep_us(100);
    }
    hands_on(pipes[1][1], 'e');
}

static void answers_pipes(void) {
    char byte = 'x';
    while (read(pipes[1][0], &byte, 1) == 1 && byte == 'x')
        hands_on(pipes[0][1], byte);
}

static void syncs_data(void) {
    while (now() < end)
        if (pwrite(file, "x", 1, 0) != 1 || fdatasync(file) != 0)
            exit(1);
}

static struct thread {
    const char *name;
    void (*waits)(void);
    uint64_t waited, there;
    pthread_t thread;
} threads[] = {
    {"900ms", sleeps_900ms, 0, 0, 0},     {"10ms", sleeps_10ms, 0, 0, 0},
    {"7ms", sleeps_7ms, 0, 0, 0},         {"3ms", sleeps_3ms, 0, 0, 0},
    {"50us", sleeps_50us, 0, 0, 0},       {"turns", sleeps_by_turns, 0, 0, 0},
    {"cond", waits_for_conditions, 0, 0, 0}, {"pipe", reads_pipes, 0, 0, 0},
    {"pipe2", answers_pipes, 0, 0, 0}, {"sync", syncs_data, 0, 0, 0},
};

static void other_turn(void) { takes_turns(1); }

static void *run(void *argument) {
    struct thread *thread = argument;
    pthread_setname_np(pthread_self(), thread->name);
    uint64_t start = now(), waited = not_running();
    thread->waits();
    thread->waited = not_running() - waited;
    thread->there = now() - start;
    return NULL;
}

static void *run_other(void *unused) {
    pthread_setname_np(pthread_self(), "other");
    other_turn();
    return unused;
}

int main(int argc, char **argv) {
    pthread_t other;
    char byte;

    if (argc != 3 || (file = open(argv[2], O_CREAT | O_RDWR, 0600)) < 0 || pipe(pipes[0]) != 0 ||
        pipe(pipes[1]) != 0 || read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    end = now() + atof(argv[1]) * 1e9;
    pthread_create(&other, NULL, run_other, NULL);
    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++)
        pthread_create(&threads[i].thread, NULL, run, &threads[i]);
    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++)
        pthread_join(threads[i].thread, NULL);
    pthread_join(other, NULL);
    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++)
        printf("%s %lu\n%s-there %lu\n", threads[i].name, threads[i].waited, threads[i].name, threads[i].there);
    return 0;
}
