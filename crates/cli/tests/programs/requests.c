// Handles requests, and prints what each of them was: length, kind, name, host and result. Then it writes lines to
// /dev/null, of 1, 2, 3 ... bytes. Usage: requests NUMBER
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum kind { GET = 1, PUT = 2, DELETE = 7 };

struct request {
    int length;
    enum kind kind;
    char name[16];
    const char *host;
    unsigned flags : 3;
};

__attribute__((noinline)) long handle(struct request *request, long factor) {
    long sum = 0;
    for (int i = 0; i < request->length; i++)
        sum += i * factor;
    return sum - 3;
}

int main(int count, char **words) {
    static const enum kind kinds[] = {GET, PUT, DELETE};
    static const char *const hosts[] = {"alpha", "beta", "gamma.example.org"};
    static const char bytes[1000];
    int requests = count > 1 ? atoi(words[1]) : 10;
    int null = open("/dev/null", O_WRONLY);

    for (int i = 0; i < requests; i++) {
        struct request request = {
            .length = i * 7 % 300, .kind = kinds[i % 3], .host = hosts[i % 3], .flags = i % 5};
        snprintf(request.name, sizeof(request.name), "name-%d", i % 4);
        long result = handle(&request, i % 2 ? 1 : -1);
        printf("%d %d %s %s %u %ld\n", request.length, request.kind, request.name, request.host, request.flags, result);
    }
    for (int i = 1; i <= requests; i++)
        if (write(null, bytes, i) != i)
            return 1;
    return 0;
}
