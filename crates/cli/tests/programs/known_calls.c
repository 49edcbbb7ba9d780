/*
 * Makes system calls of which the numbers are known. First argument: how many times `getppid` is called, by this thread;
 * `getuid` is called twice as often by a second thread, and `getgid` three times as often by a child process. With a
 * second argument it waits for a byte on standard input first, with both threads there, and for another at the end.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long times;
static int may_start[2];

static void call(long number, long count) {
    for (long i = 0; i < count; i++)
        syscall(number);
}

static void *second(void *unused) {
    char byte;
    if (read(may_start[0], &byte, 1) == 1)
        call(SYS_getuid, 2 * times);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    char byte;
    pid_t child;

    times = argc > 1 ? atol(argv[1]) : 1;
    if (pipe(may_start) || pthread_create(&thread, NULL, second, NULL))
        return 1;
    if (argc > 2) {
        puts("ready");
        fflush(stdout);
        if (read(0, &byte, 1) != 1)
            return 1;
    }
    if (write(may_start[1], "", 1) != 1)
        return 1;
    call(SYS_getppid, times);
    child = fork();
    if (!child) {
        call(SYS_getgid, 3 * times);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    pthread_join(thread, NULL);
    if (argc > 2) {
        puts("done");
        fflush(stdout);
        if (read(0, &byte, 1) != 1)
            return 1;
    }
    return 0;
}
