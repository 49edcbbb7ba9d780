/*
 * Executes a program whose file cannot be found by its name then:
 *
 *   becomes memfd FILE ARGUMENT…      a copy in memory (memfd_create)
 *   becomes deleted FILE ARGUMENT…    the file itself, which is removed before
 *   becomes hidden FILE ARGUMENT…     a copy of it at /tmp/pyrograph-hidden, where only this process's mount
 *                                     namespace has it
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static int copy(int to, int from) {
    struct stat info;

    if (to < 0 || fstat(from, &info))
        return -1;
    for (off_t at = 0; at < info.st_size;)
        if (sendfile(to, from, &at, (size_t)(info.st_size - at)) <= 0)
            return -1;
    return to;
}

int main(int argc, char **argv) {
    int file, to;

    if (argc < 3 || (file = open(argv[2], O_RDONLY | O_CLOEXEC)) < 0)
        return 2;
    if (!strcmp(argv[1], "memfd")) {
        file = copy(memfd_create("program", MFD_CLOEXEC), file);
        fexecve(file, argv + 2, environ);
    } else if (!strcmp(argv[1], "deleted")) {
        unlink(argv[2]);
        fexecve(file, argv + 2, environ);
    } else if (!strcmp(argv[1], "hidden")) {
        const char *name = "/tmp/pyrograph-hidden";

        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("none", "/tmp", "tmpfs", 0, NULL)) {
            perror("mount namespace");
            return 1;
        }
        to = copy(open(name, O_WRONLY | O_CREAT, 0755), file);
        if (to < 0)
            return 1;
        close(to);
        execve(name, argv + 2, environ);
    }
    perror(argv[1]);
    return 1;
}
