/*
 * A program that makes code as it runs, and puts one function into the place of another: `first` runs
 * three times as long as `second`, at the same address. A jitdump file has what is where when in
 * the present folder. Prints the CPU time that each took, in nanoseconds: a processor may be faster at one time than at another.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Counts its argument down to 0. */
#if defined(__x86_64__)
enum { MACHINE = 62 };
static const unsigned char CODE[16] = {0xff, 0xcf, 0x75, 0xfc, 0xc3};
#elif defined(__aarch64__)
enum { MACHINE = 183 };
static const uint32_t CODE[4] = {0x71000400, 0x54ffffe1, 0xd65f03c0};
#endif

struct header {
    uint32_t magic, version, size, machine, pad, pid;
    uint64_t timestamp, flags;
};

struct load {
    uint32_t id, size;
    uint64_t timestamp;
    uint32_t pid, tid;
    uint64_t vma, address, code_size, index;
};

static uint64_t clock_now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t now(void) { return clock_now(CLOCK_MONOTONIC); }
static uint64_t used(void) { return clock_now(CLOCK_PROCESS_CPUTIME_ID); }

static int make(FILE *dump, void *place, uint64_t index, const char *name) {
    struct load load = {
        .size = (uint32_t)(sizeof load + strlen(name) + 1 + sizeof CODE),
        .timestamp = now(),
        .pid = (uint32_t)getpid(),
        .tid = (uint32_t)getpid(),
        .vma = (uintptr_t)place,
        .address = (uintptr_t)place,
        .code_size = sizeof CODE,
        .index = index,
    };
    memcpy(place, CODE, sizeof CODE);
    __builtin___clear_cache(place, (char *)place + sizeof CODE);
    fwrite(&load, sizeof load, 1, dump);
    fwrite(name, strlen(name) + 1, 1, dump);
    fwrite(CODE, sizeof CODE, 1, dump);
    return fflush(dump);
}

int main(void) {
    const uint32_t unit = 600000000;
    struct header header = {0x4a695444, 1, sizeof header, MACHINE, 0, (uint32_t)getpid(), now(), 0};
    char name[32];
    snprintf(name, sizeof name, "jit-%d.dump", getpid());
    FILE *dump = fopen(name, "w+");
    void *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!dump || place == MAP_FAILED || fwrite(&header, sizeof header, 1, dump) != 1 || fflush(dump) != 0)
        return 1;
    /* By this, recorders learn of the file. */
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED)
        return 1;
    void (*code)(uint32_t) = (void (*)(uint32_t))place;
    if (make(dump, place, 0, "first") != 0)
        return 1;
    uint64_t start = used();
    for (int i = 0; i < 3; i++)
        code(unit);
    uint64_t first = used() - start;
    if (make(dump, place, 1, "second") != 0)
        return 1;
    start = used();
    code(unit);
    printf("%llu %llu\n", (unsigned long long)first, (unsigned long long)(used() - start));
    return fclose(dump);
}
