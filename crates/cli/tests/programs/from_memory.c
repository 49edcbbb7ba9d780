/* Copies a program into a file that has no place, and becomes it: its path, and its arguments. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    char bytes[65536];
    int from = open(argv[argc > 1], O_RDONLY), to = memfd_create("program", MFD_CLOEXEC);
    for (ssize_t count; (count = read(from, bytes, sizeof bytes)) > 0;)
        if (write(to, bytes, (size_t)count) != count)
            return 1;
    fexecve(to, argv + 1, environ);
    return 2;
}
