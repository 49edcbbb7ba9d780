/*
 * Makes each of twelve harmless system calls a known number of times: the first as often as the argument says, the second
 * twice as often, and so on; a half of them in a second thread, and all of them once again in a child process.
 * Then, where the kernel takes them, `writev` by its number among those of 32-bit programs, where it is `getpid`: 20, which
 * is `writev` among the others; it prints how many of these there were.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const long numbers[] = {
    SYS_getppid, SYS_getuid, SYS_getgid, SYS_geteuid, SYS_getegid, SYS_getpgrp,
    SYS_gettid, SYS_sched_yield, SYS_getpgid, SYS_getsid, SYS_sched_getscheduler, SYS_sched_getparam,
};
#define COUNT (int)(sizeof(numbers) / sizeof(*numbers))

static long times;

static void call(int from, int to) {
    for (int i = from; i < to; i++)
        for (long n = 0; n < times * (i + 1); n++)
            syscall(numbers[i], 0, 0, 0);
}

static void *second(void *unused) {
    call(COUNT / 2, COUNT);
    return unused;
}

static int old_calls(void) {
    int status = 1;
    pid_t child = fork();

    if (!child) {
        long result = 20;
        for (int i = 0; i < 5; i++) {
            result = 20;
            __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        }
        _exit(result == getpid() ? 0 : 1);
    }
    waitpid(child, &status, 0);
    return status ? 0 : 5;
}

int main(int argc, char **argv) {
    pthread_t thread;
    pid_t child;

    times = argc > 1 ? atol(argv[1]) : 1;
    if (pthread_create(&thread, NULL, second, NULL))
        return 1;
    call(0, COUNT / 2);
    pthread_join(thread, NULL);
    child = fork();
    if (!child) {
        call(0, COUNT);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("%d\n", old_calls());
    return 0;
}
