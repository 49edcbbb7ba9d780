// Threads that wait for each other, for a CPU, a disk and the time, so that a chart of the scheduler has something to show.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int sockets[2];
static volatile int over;

static void work(long microseconds) {
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < microseconds);
}
static void only_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}
static void *compute(void *unused) {
    only_on(0);
    while (!over) {
        work(9000);
        usleep(4000);
    }
    return unused;
}
static void *locked(void *unused) {
    while (!over) {
        pthread_mutex_lock(&lock);
        work(2500);
        pthread_mutex_unlock(&lock);
        work(400);
    }
    return unused;
}
static void *store(void *path) {
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    char *block = calloc(1, 65536);
    while (!over) {
        if (write(file, block, 65536) < 0) break;
        fdatasync(file);
        work(600);
    }
    unlink(path);
    return path;
}
static void *ask(void *unused) {
    char byte = 0;
    while (!over && write(sockets[0], &byte, 1) == 1 && read(sockets[0], &byte, 1) == 1) usleep(1500);
    shutdown(sockets[0], SHUT_RDWR);
    return unused;
}
static void *answer(void *unused) {
    char byte;
    while (read(sockets[1], &byte, 1) == 1) {
        work(700);
        if (write(sockets[1], &byte, 1) != 1) break;
    }
    return unused;
}
int main(int count, char **arguments) {
    struct { const char *name; void *(*run)(void *); } threads[] = {
        {"compute-1", compute}, {"compute-2", compute}, {"compute-3", compute}, {"locked-1", locked},
        {"locked-2", locked}, {"store", store}, {"ask", ask}, {"answer", answer},
    };
    const int all = sizeof threads / sizeof *threads;
    pthread_t ids[sizeof threads / sizeof *threads];
    if (count < 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0) return 1;
    for (int at = 0; at < all; at++) {
        pthread_create(&ids[at], NULL, threads[at].run, arguments[1]);
        pthread_setname_np(ids[at], threads[at].name);
    }
    usleep(atoi(arguments[2]) * 1000);
    over = 1;
    for (int at = 0; at < all; at++) pthread_join(ids[at], NULL);
    return 0;
}
