/*
 * Programs that leave CPUs idle, for tests/kernels/idle. What each does, it does in three functions, with shares of 60, 30 and
 * 10 %; at the end it writes the CPU time that the kernel accounts to it and its children since it began, in seconds.
 *
 *   idle sleep-work | work-sleep-work | bursts | few-threads | many-threads | short-processes
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Some tens of nanoseconds; as many for each, also where a CPU takes longer to leave a loop than to go round in it. */
__attribute__((noinline)) static void unit(void) {
    for (volatile int i = 0; i < 20; i++) {
    }
}

/* All three do more in one round than in another: where time is the number of instructions, rounds of one length would be in step
 * with the ticks of a clock. */
static _Thread_local unsigned times = 1;

#define FUNCTION(name, units)                                            \
    __attribute__((noinline)) static void name(void) {                   \
        for (unsigned i = 0; i < (units) * times; i++)                   \
            unit();                                                      \
    }
FUNCTION(sixty, 60)
FUNCTION(thirty, 30)
FUNCTION(ten, 10)

static double cpu_time_of(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Works for so many seconds of the thread's CPU time. */
static void work(double seconds) {
    double end = cpu_time_of(CLOCK_THREAD_CPUTIME_ID) + seconds;
    unsigned random = getpid();
    while (cpu_time_of(CLOCK_THREAD_CPUTIME_ID) < end) {
        random = random * 1664525 + 1013904223;
        times = 1 + (random >> 30);
        sixty();
        thirty();
        ten();
    }
}

static void pause_for(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void *half_a_second(void *nothing) {
    pause_for(0.3);
    work(0.5);
    return nothing;
}

static void threads(int count) {
    pthread_t all[64];
    for (int i = 0; i < count; i++)
        pthread_create(&all[i], NULL, half_a_second, NULL);
    for (int i = 0; i < count; i++)
        pthread_join(all[i], NULL);
}

static void short_processes(int count) {
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0) {
            work(0.004);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        if (i % 4 == 0)
            pause_for(0.003);
    }
}

static double accounted(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    /* Before it was executed, it was a copy of what has started it, which is not recorded. */
    double before = accounted(RUSAGE_SELF);
    if (!strcmp(what, "sleep-work")) {
        pause_for(3);
        work(1);
    } else if (!strcmp(what, "work-sleep-work")) {
        work(0.5);
        pause_for(2);
        work(0.5);
    } else if (!strcmp(what, "bursts")) {
        for (int i = 0; i < 200; i++) {
            work(0.005);
            pause_for(0.01);
        }
    } else if (!strcmp(what, "few-threads")) {
        threads(3);
    } else if (!strcmp(what, "many-threads")) {
        threads(12);
    } else if (!strcmp(what, "short-processes")) {
        short_processes(400);
    } else {
        fprintf(stderr, "idle: %s: no such thing\n", what);
        return 2;
    }
    printf("%.6f\n", accounted(RUSAGE_SELF) + accounted(RUSAGE_CHILDREN) - before);
    return 0;
}
