/*
 * Calls the kernel 300,000 times once it gets a byte on standard input: a third in `calls_once`, and the rest in
 * `calls_twice`, by turns.
 */
#include <sys/syscall.h>
#include <unistd.h>

#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

__attribute__((noinline)) void calls_once(void) {
    syscall(SYS_getppid);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void calls_twice(void) {
    syscall(SYS_getppid);
    syscall(SYS_getppid);
    NO_TAIL_CALL;
}

int main(void) {
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    for (int i = 0; i < 100000; i++) {
        calls_once();
        calls_twice();
    }
    return 0;
}
