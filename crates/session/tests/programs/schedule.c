/*
 * Does something known with the scheduler, and writes for each of its threads to a file: its ID, how often it gave up a
 * CPU and how often it had to, its CPU time and its life in nanoseconds. Begins when its standard input ends.
 *
 *   schedule FILE sleeps TIMES NANOSECONDS | spins MILLISECONDS | migrates TIMES | turns TIMES | forks TIMES | waits
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct thread {
    pthread_t id;
    int tid, number;
    struct rusage used;
    long cpu, life;
    /* What the first thread had done before it began. */
    struct rusage before;
    long cpu_before;
};

static long times, amount, started;
static int there[2], back[2];
static pthread_barrier_t both;

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        exit(3);
}

static void begin(struct thread *thread) {
    thread->tid = gettid();
    thread->life = now(CLOCK_MONOTONIC);
}

static void end(struct thread *thread) {
    thread->life = now(CLOCK_MONOTONIC) - thread->life;
    thread->cpu = now(CLOCK_THREAD_CPUTIME_ID);
    getrusage(RUSAGE_THREAD, &thread->used);
}

static void nap(long nanoseconds) {
    struct timespec time = {nanoseconds / 1000000000L, nanoseconds % 1000000000L};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void *spin(void *argument) {
    struct thread *thread = argument;
    begin(thread);
    pin(0);
    while (now(CLOCK_MONOTONIC) - started < times * 1000000L)
        ;
    end(thread);
    return NULL;
}

static void *take_turns(void *argument) {
    struct thread *thread = argument;
    int *to = thread->number ? back : there, *from = thread->number ? there : back;
    char byte;
    begin(thread);
    pin(0);
    for (long i = 0; i < times; i++) {
        if (!thread->number && write(to[1], "x", 1) != 1)
            exit(3);
        if (read(from[0], &byte, 1) != 1)
            exit(3);
        if (thread->number && write(to[1], "x", 1) != 1)
            exit(3);
    }
    end(thread);
    return NULL;
}

static void fork_children(void) {
    for (long i = 0; i < times; i++) {
        int child = fork();
        if (!child)
            _exit(0);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            exit(3);
    }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int sockets[2];

/* Waits until the first thread of a process is asleep in a system call with this argument: its state says so before, while it
 * still runs or was preempted, and it may not have left the wait before; a system call is said only of a thread that has left its
 * CPU. */
static void until_asleep(int pid, long call, long argument) {
    char path[64], line[128], wanted[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, pid);
    snprintf(wanted, sizeof wanted, "%ld 0x%lx ", call, argument);
    do {
        FILE *file = fopen(path, "r");
        if (!file || !fgets(line, sizeof line, file))
            exit(3);
        fclose(file);
    } while (strncmp(line, wanted, strlen(wanted)));
}

/* What the first thread polls. */
static struct pollfd polled;

/* Ends each of the waits of `wait_for_all`. */
static void *end_waits(void *argument) {
    pthread_mutex_lock(&mutex);
    pthread_barrier_wait(&both);
    until_asleep(getpid(), SYS_futex, (long)&mutex);
    pthread_mutex_unlock(&mutex);
    until_asleep(getpid(), SYS_read, there[0]);
    if (write(there[1], "x", 1) != 1)
        exit(3);
    until_asleep(getpid(), SYS_recvfrom, sockets[0]);
    if (write(sockets[1], "x", 1) != 1)
        exit(3);
    until_asleep(getpid(), SYS_poll, (long)&polled);
    if (write(there[1], "x", 1) != 1)
        exit(3);
    return argument;
}

static void wait_for_all(void) {
    pthread_t other;
    char byte;
    pthread_create(&other, NULL, end_waits, NULL);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&mutex); /* a lock */
    if (read(there[0], &byte, 1) != 1 || recv(sockets[0], &byte, 1, 0) != 1) /* a pipe, a socket */
        exit(3);
    polled = (struct pollfd){there[0], POLLIN, 0};
    poll(&polled, 1, -1); /* a pipe */
    nap(20000000);    /* a timer */
    poll(NULL, 0, 20);
    pthread_join(other, NULL);
    int child = fork();
    if (!child) {
        until_asleep(getppid(), SYS_wait4, getpid());
        _exit(0);
    }
    waitpid(child, NULL, 0); /* a child */
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    const char *what = argv[2];
    times = argc > 3 ? atol(argv[3]) : 0;
    amount = argc > 4 ? atol(argv[4]) : 0;
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    struct thread threads[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    threads[2].cpu_before = now(CLOCK_THREAD_CPUTIME_ID);
    getrusage(RUSAGE_THREAD, &threads[2].before);
    begin(&threads[2]);
    started = threads[2].life;
    pthread_barrier_init(&both, NULL, 2);
    if (pipe(there) || pipe(back) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        return 3;
    void *(*run)(void *) = NULL;
    if (!strcmp(what, "sleeps")) {
        for (long i = 0; i < times; i++)
            nap(amount);
    } else if (!strcmp(what, "migrates")) {
        pin(0);
        for (long i = 0; i < times; i++)
            pin((i + 1) % 2);
    } else if (!strcmp(what, "forks")) {
        fork_children();
    } else if (!strcmp(what, "waits")) {
        wait_for_all();
    } else {
        run = strcmp(what, "spins") ? take_turns : spin;
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i].id, NULL, run, &threads[i]);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i].id, NULL);
    }
    end(&threads[2]);
    FILE *file = fopen(argv[1], "w");
    for (int i = run ? 0 : 2; i < 3; i++)
        fprintf(file, "%d %ld %ld %ld %ld\n", threads[i].tid, threads[i].used.ru_nvcsw - threads[i].before.ru_nvcsw,
                threads[i].used.ru_nivcsw - threads[i].before.ru_nivcsw, threads[i].cpu - threads[i].cpu_before,
                threads[i].life);
    return fclose(file);
}
