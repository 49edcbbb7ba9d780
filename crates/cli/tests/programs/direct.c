/*
 * Writes 50 times 65,536 bytes to the file that is its argument, past the page cache; it has to be there and
 * as large. Says why if that cannot be done.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) void writes_to_disk(int file, const void *data) {
    for (int i = 0; i < 50; i++)
        if (pwrite(file, data, 65536, i * 65536) != 65536)
            _exit(1);
    __asm__ volatile("" ::: "memory");
}

int main(int count, char **arguments) {
    void *data;
    int file = count > 1 ? open(arguments[1], O_WRONLY | O_DIRECT) : -1;
    if (file < 0 || posix_memalign(&data, 4096, 65536) != 0) {
        perror(arguments[count - 1]);
        return 1;
    }
    writes_to_disk(file, data);
    return 0;
}
