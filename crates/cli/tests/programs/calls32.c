/*
 * A 32-bit program without a library: opens files, writes, and works for as long as its own clock says. It is built with -m32
 * -nostdlib -static.
 */
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(a), "c"(b), "d"(c) : "memory");
    return result;
}

/* clock(3) by times(2): hundredths of a second of this process. */
static long used(void) {
    long times[4];
    call(43, (long)times, 0, 0);
    return times[0];
}

__attribute__((noinline)) void work(void) {
    for (long end = used() + 40; used() < end;)
        for (volatile int i = 0; i < 1000000; i++) {
        }
}

void _start(void) {
    call(5, (long)"/proc/self/stat", 0, 0); /* open */
    call(295, -100, (long)"/nonexistent", 0); /* openat */
    call(4, 1, (long)"x\n", 2); /* write */
    call(192, 0, 4096, 3); /* mmap2, whose other arguments are what registers hold */
    char *arguments[] = {"a", "bc", 0};
    call(11, (long)"/nonexistent/b", (long)arguments, 0); /* execve */
    work();
    call(252, 3, 0, 0); /* exit_group */
}
