/*
 * A small service that does a little of everything, so that each question of Pyrograph has an answer to
 * show: docs/questions.md has the pictures.
 *
 * A client sends orders through a socket to two workers. Each prices its order, books it under a lock, and
 * writes it to a journal, which must be on the disk before the next. Once in a while an order is kept, and
 * nobody ever lets go of it.
 *
 * Build and run: cc -O2 -g -pthread -o orders orders.c && ./orders 10     (seconds)
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
/* The statement after a call keeps it from becoming a jump, so that the caller is in the stack. */
#define END __asm__ volatile("" ::: "memory")

struct order {
    long number;
    double price;
    char text[2000];
};

static int client_end, server_end, journal;
static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;
static double turnover;
static struct order *kept;
static double until;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void pause_us(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static void must(int right, const char *what) {
    if (!right) {
        perror(what);
        exit(1);
    }
}

NOINLINE double discount(long number) {
    double sum = 0;
    for (long i = 1; i < 150000; i++)
        sum += 1.0 / (double)(number % 97 + i);
    return sum;
}

NOINLINE double tax(double price) {
    for (int i = 0; i < 400000; i++)
        price = price * 1.0000001 + 1e-9;
    return price;
}

NOINLINE void price(struct order *order) {
    order->price = tax(100 - discount(order->number));
    END;
}

/* The lock is held for longer than is good: while the books are sent elsewhere. */
NOINLINE void send_books(void) {
    pause_us(1500);
    END;
}

NOINLINE void book(struct order *order) {
    pthread_mutex_lock(&books);
    turnover += order->price;
    send_books();
    pthread_mutex_unlock(&books);
    END;
}

NOINLINE void write_journal(struct order *order) {
    must(write(journal, order, sizeof(*order)) == sizeof(*order), "journal");
    must(fdatasync(journal) == 0, "journal");
    END;
}

NOINLINE struct order *copy(const struct order *order) {
    struct order *made = malloc(sizeof(*made));
    must(made != NULL, "memory");
    memcpy(made, order, sizeof(*made));
    return made;
}

NOINLINE void keep(struct order *order) {
    kept = copy(order);
    END;
}

NOINLINE void handle(const struct order *received) {
    struct order *order = copy(received);
    price(order);
    book(order);
    write_journal(order);
    if (order->number % 10 == 0)
        keep(order);
    free(order);
    END;
}

NOINLINE int receive(struct order *order) {
    return recv(server_end, order, sizeof(*order), 0) == sizeof(*order);
}

static void *worker(void *unused) {
    struct order order;
    pthread_setname_np(pthread_self(), "worker");
    while (receive(&order))
        handle(&order);
    return unused;
}

NOINLINE void send_order(long number) {
    struct order order = {.number = number};
    memset(order.text, 'x', sizeof(order.text));
    must(send(client_end, &order, sizeof(order), 0) == sizeof(order), "socket");
    END;
}

static void client(void) {
    for (long number = 1; now() < until; number++) {
        send_order(number);
        pause_us(2500);
    }
    shutdown(client_end, SHUT_WR);
}

int main(int count, char **arguments) {
    pthread_t threads[2];
    int ends[2];
    char name[] = "orders.journal";

    until = now() + (count > 1 ? atof(arguments[1]) : 10);
    must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socket");
    client_end = ends[0];
    server_end = ends[1];
    journal = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(journal >= 0, name);
    pthread_create(&threads[0], NULL, worker, NULL);
    pthread_create(&threads[1], NULL, worker, NULL);
    client();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("turnover %.2f\n", turnover);
    unlink(name);
    return 0;
}
