/*
 * A program that makes two functions as it runs, without frame pointers, and says in a jitdump file in the present
 * folder how they are to be unwound (UNWINDING_INFO). A quarter of the time goes to one and the rest to the other:
 *
 *     main → work → outer           25 %
 *     main → work → outer → inner   75 %
 *
 * x86-64. How often `outer` calls `inner` is the argument.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { UNIT = 200000, MACHINE = 62, HEADER_SIZE = 20, TABLE_SIZE = 128 };

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

struct unwinding {
    uint32_t id, size;
    uint64_t timestamp;
    uint64_t unwinding_size, header_size, mapped_size;
};

/* 0 in rbp is no frame pointer, and what calls it counts on it. */
static const unsigned char OUTER[] = {
    0x55,                   /*  0 push %rbp */
    0x53,                   /*  1 push %rbx */
    0x48, 0x83, 0xec, 0x28, /*  2 sub $0x28,%rsp */
    0x31, 0xed,             /*  6 xor %ebp,%ebp */
    0x89, 0xfb,             /*  8 mov %edi,%ebx */
    0xb9, 0, 0, 0, 0,       /* 10 mov $…,%ecx */
    0xff, 0xc9,             /* 15 dec %ecx */
    0x75, 0xfc,             /* 17 jne 15 */
    0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, /* 19 mov $inner,%rax */
    0xff, 0xd0,             /* 29 call *%rax */
    0xff, 0xcb,             /* 31 dec %ebx */
    0x75, 0xe7,             /* 33 jne 10 */
    0x48, 0x83, 0xc4, 0x28, /* 35 add $0x28,%rsp */
    0x5b,                   /* 39 pop %rbx */
    0x5d,                   /* 40 pop %rbp */
    0xc3,                   /* 41 ret */
};
static const unsigned char OUTER_CFI[] = {
    0x41, 0x0e, 16, 0x86, 2, /* from 1: the CFA is rsp + 16, rbp is at CFA - 16 */
    0x41, 0x0e, 24, 0x83, 3, /* from 2: rsp + 24, rbx is at CFA - 24 */
    0x44, 0x0e, 64,          /* from 6: rsp + 64 */
    0x61, 0x0e, 24,          /* from 39 */
    0x41, 0x0e, 16, 0xc3,    /* from 40 */
    0x41, 0x0e, 8, 0xc6,     /* from 41 */
};

static const unsigned char INNER[] = {
    0x53,                   /*  0 push %rbx */
    0x48, 0x83, 0xec, 0x10, /*  1 sub $0x10,%rsp */
    0xb9, 0, 0, 0, 0,       /*  5 mov $…,%ecx */
    0xff, 0xc9,             /* 10 dec %ecx */
    0x75, 0xfc,             /* 12 jne 10 */
    0x48, 0x83, 0xc4, 0x10, /* 14 add $0x10,%rsp */
    0x5b,                   /* 18 pop %rbx */
    0xc3,                   /* 19 ret */
};
static const unsigned char INNER_CFI[] = {
    0x41, 0x0e, 16, 0x83, 2, /* from 1: rsp + 16, rbx is at CFA - 16 */
    0x44, 0x0e, 32,          /* from 5 */
    0x4d, 0x0e, 16,          /* from 18 */
    0x41, 0x0e, 8, 0xc3,     /* from 19 */
};

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* An .eh_frame with one entry, for code that it follows at the next multiple of 8. Returns its size. */
static size_t table(unsigned char *to, uintptr_t code, size_t code_size, const unsigned char *cfi, size_t cfi_size) {
    static const unsigned char CIE[24] = {
        20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,
    };
    uintptr_t address = (code + code_size + 7) & ~(uintptr_t)7;
    size_t size = (sizeof CIE + 4 + 4 + 4 + 4 + 1 + cfi_size + 7) & ~(size_t)7;
    uint32_t entry[4] = {
        (uint32_t)(size - sizeof CIE - 4), /* its size, without this */
        sizeof CIE + 4,                    /* how far back the common part is */
        (uint32_t)(code - (address + sizeof CIE + 8)),
        (uint32_t)code_size,
    };
    memset(to, 0, TABLE_SIZE);
    memcpy(to, CIE, sizeof CIE);
    memcpy(to + sizeof CIE, entry, sizeof entry);
    memcpy(to + sizeof CIE + sizeof entry + 1, cfi, cfi_size);
    return size + 4; /* and a 0 that ends it */
}

static int make(FILE *dump, unsigned char *place, size_t size, const unsigned char *cfi, size_t cfi_size, const char *name) {
    unsigned char tables[TABLE_SIZE + HEADER_SIZE];
    size_t table_size = table(tables, (uintptr_t)place, size, cfi, cfi_size);
    size_t all = table_size + HEADER_SIZE;
    struct unwinding unwinding = {
        .id = 4,
        .size = (uint32_t)(sizeof unwinding + all),
        .timestamp = now(),
        .unwinding_size = all,
        .header_size = HEADER_SIZE,
        .mapped_size = all,
    };
    struct load load = {
        .size = (uint32_t)(sizeof load + strlen(name) + 1 + size),
        .timestamp = now(),
        .pid = (uint32_t)getpid(),
        .tid = (uint32_t)getpid(),
        .vma = (uintptr_t)place,
        .address = (uintptr_t)place,
        .code_size = size,
    };
    memset(tables + table_size, 0x77, HEADER_SIZE);
    fwrite(&unwinding, sizeof unwinding, 1, dump);
    fwrite(tables, all, 1, dump);
    fwrite(&load, sizeof load, 1, dump);
    fwrite(name, strlen(name) + 1, 1, dump);
    fwrite(place, size, 1, dump);
    return fflush(dump);
}

/* In a function of its own, that has work to do behind the call. */
__attribute__((noinline)) static int work(void (*outer)(uint32_t), uint32_t rounds) {
    outer(rounds);
    return fflush(stdout);
}

int main(int count, char **arguments) {
    struct header header = {0x4a695444, 1, sizeof header, MACHINE, 0, (uint32_t)getpid(), now(), 0};
    char name[32];
    snprintf(name, sizeof name, "jit-%d.dump", getpid());
    FILE *dump = fopen(name, "w+");
    unsigned char *outer = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!dump || outer == MAP_FAILED || fwrite(&header, sizeof header, 1, dump) != 1 || fflush(dump) != 0)
        return 1;
    /* By this, recorders learn of the file. */
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED)
        return 1;
    unsigned char *inner = outer + 256;
    uint32_t unit = UNIT, units = 3 * UNIT;
    memcpy(outer, OUTER, sizeof OUTER);
    memcpy(outer + 11, &unit, sizeof unit);
    memcpy(outer + 21, &inner, sizeof inner);
    memcpy(inner, INNER, sizeof INNER);
    memcpy(inner + 6, &units, sizeof units);
    if (make(dump, outer, sizeof OUTER, OUTER_CFI, sizeof OUTER_CFI, "outer") != 0 ||
        make(dump, inner, sizeof INNER, INNER_CFI, sizeof INNER_CFI, "inner") != 0)
        return 1;
    void (*code)(uint32_t) = (void (*)(uint32_t))outer;
    if (work(code, (uint32_t)atoi(count > 1 ? arguments[1] : "1000")) != 0)
        return 1;
    return fclose(dump);
}
