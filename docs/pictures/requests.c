// Two threads that answer requests: bursts of parse and render with pauses between them.
// For the pictures of docs/heatmap.md: see ./make.
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static volatile double sink;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void spin(double seconds) {
    double end = now() + seconds;
    while (now() < end)
        for (int i = 0; i < 1000; i++) sink += i;
}

__attribute__((noinline)) static void parse(void) { spin(0.03); sink++; }
__attribute__((noinline)) static void render(void) { spin(0.03); sink++; }
__attribute__((noinline)) static void request(void) { parse(); render(); sink++; }

static void *worker(void *number) {
    for (int i = 0; i < 40; i++) {
        request();
        usleep(90000 + 40000 * (long)number);
    }
    return 0;
}

int main(void) {
    pthread_t threads[2];
    for (long n = 0; n < 2; n++) pthread_create(threads + n, 0, worker, (void *)n);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], 0);
}
