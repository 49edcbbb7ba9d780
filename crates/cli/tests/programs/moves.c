/*
 * Reads and writes what it knows the size of, once it gets a byte on standard input. The
 * argument is the name of a file that it may write.
 *
 * `writes` writes 200 times 4,096 bytes to it, `reads` reads them, `pipes` sends 100 times 512 bytes
 * through a pipe, `sends` 300 times 1,000 bytes through a socket, out of which `receives` takes them.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char data[4096];

/* The empty assembly after a call keeps it from becoming a jump. */
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

static void check(int right) {
    if (!right)
        _exit(1);
}

__attribute__((noinline)) void writes(int file) {
    for (int i = 0; i < 200; i++)
        check(write(file, data, 4096) == 4096);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void reads(int file) {
    for (int i = 0; i < 200; i++)
        check(pread(file, data, 4096, i * 4096) == 4096);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void pipes(const int *ends) {
    for (int i = 0; i < 100; i++) {
        check(write(ends[1], data, 512) == 512);
        check(read(ends[0], data, 512) == 512);
    }
    NO_TAIL_CALL;
}

__attribute__((noinline)) void sends(int socket) {
    check(send(socket, data, 1000, 0) == 1000);
    NO_TAIL_CALL;
}

__attribute__((noinline)) void receives(int socket) {
    /* To look does not count. */
    check(recv(socket, data, 4096, MSG_PEEK) == 1000);
    check(recv(socket, data, 4096, 0) == 1000);
    NO_TAIL_CALL;
}

int main(int count, char **arguments) {
    int ends[2], sockets[2], file;
    char byte;

    check(count == 2 && read(STDIN_FILENO, &byte, 1) == 1);
    file = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(file >= 0 && pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    writes(file);
    reads(file);
    pipes(ends);
    for (int i = 0; i < 300; i++) {
        sends(sockets[0]);
        receives(sockets[1]);
    }
    return 0;
}
