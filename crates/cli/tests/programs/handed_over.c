// Requests that one thread begins and another ends: 20, of 1 ms and of 10 ms by turns, each with its name and its kind. No two of
// them are under way for the same time.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define REQUESTS 20

struct request {
    int id;
    int microseconds;
    char name[16];
    char kind[8];
};

static struct request requests[REQUESTS];
static int queue[2];

__attribute__((noinline)) void begins(struct request *request) {
    __asm__ volatile("" ::"r"(request) : "memory");
}

__attribute__((noinline)) void ends(int number, const char *called) {
    __asm__ volatile("" ::"r"(number), "r"(called) : "memory");
}

static void *other(void *nothing) {
    struct request *request;
    while (read(queue[0], &request, sizeof request) == sizeof request) {
        usleep(request->microseconds);
        ends(request->id, request->name);
    }
    return nothing;
}

int main(void) {
    pthread_t thread;
    if (pipe(queue) || pthread_create(&thread, NULL, other, NULL))
        return 1;
    for (int i = 0; i < REQUESTS; i++) {
        struct request *request = &requests[i];
        request->id = 100 + i;
        request->microseconds = i % 2 ? 10000 : 1000;
        snprintf(request->name, sizeof request->name, "request %d", i);
        snprintf(request->kind, sizeof request->kind, i % 2 ? "slow" : "fast");
        begins(request);
        if (write(queue[1], &request, sizeof request) != sizeof request)
            return 1;
        usleep(15000);
    }
    close(queue[1]);
    pthread_join(thread, NULL);
    return 0;
}
