/*
 * Waits for locks, and for other things by the same system call, each ten times for 5 ms, once it gets a byte on
 * standard input. With an argument, two threads take turns at a condition, and go on until they are killed.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t of_condition = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int is_true;

static void sleep_5ms(void) {
    struct timespec time = {0, 5000000};
    nanosleep(&time, NULL);
}

__attribute__((noinline)) void for_lock(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void for_reading(void) {
    pthread_rwlock_rdlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void for_condition(void) {
    pthread_mutex_lock(&of_condition);
    while (!is_true)
        pthread_cond_wait(&condition, &of_condition);
    is_true = 0;
    pthread_mutex_unlock(&of_condition);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void for_semaphore(void) {
    sem_wait(&semaphore);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void for_thread(pthread_t thread) {
    pthread_join(thread, NULL);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void polls(void) {
    poll(NULL, 0, 5);
    NO_TAIL_CALL;
}

static void *ends_soon(void *unused) {
    sleep_5ms();
    return unused;
}

/* Has what the main thread waits for 5 ms after that begins to. */
static void *partner(void *unused) {
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&mutex);
        pthread_barrier_wait(&barrier);
        sleep_5ms();
        pthread_mutex_unlock(&mutex);
        pthread_rwlock_wrlock(&rwlock);
        pthread_barrier_wait(&barrier);
        sleep_5ms();
        pthread_rwlock_unlock(&rwlock);
        pthread_barrier_wait(&barrier);
        sleep_5ms();
        pthread_mutex_lock(&of_condition);
        is_true = 1;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&of_condition);
        pthread_barrier_wait(&barrier);
        sleep_5ms();
        sem_post(&semaphore);
    }
    return unused;
}

static int turn;

__attribute__((noinline)) void turns_of_two(int which) {
    pthread_mutex_lock(&of_condition);
    for (;;) {
        while (turn != which)
            pthread_cond_wait(&condition, &of_condition);
        pthread_mutex_unlock(&of_condition);
        sleep_5ms();
        pthread_mutex_lock(&of_condition);
        turn = !which;
        pthread_cond_broadcast(&condition);
    }
}

static void *other(void *unused) {
    turns_of_two(1);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread, ended;
    char byte;

    (void)argv;
    if (argc > 1) {
        pthread_create(&thread, NULL, other, NULL);
        turns_of_two(0);
    }
    if (pthread_barrier_init(&barrier, NULL, 2) != 0 || sem_init(&semaphore, 0, 0) != 0 ||
        read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    pthread_create(&thread, NULL, partner, NULL);
    for (int i = 0; i < 10; i++) {
        pthread_barrier_wait(&barrier);
        for_lock();
        pthread_barrier_wait(&barrier);
        for_reading();
        pthread_barrier_wait(&barrier);
        for_condition();
        pthread_barrier_wait(&barrier);
        for_semaphore();
        pthread_create(&ended, NULL, ends_soon, NULL);
        for_thread(ended);
        polls();
    }
    return 0;
}
