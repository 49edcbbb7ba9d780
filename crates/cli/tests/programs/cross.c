// A program for another machine, without a library: a loop, a branch, inlined calls, an atomic addition.
typedef unsigned int uint32_t;

static inline uint32_t mix(uint32_t x) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return x;
}

uint32_t table[1024];
uint32_t count;

__attribute__((noinline)) uint32_t sum(uint32_t seed) {
    uint32_t all = 0;
    for (int i = 0; i < 4096; i++) {
        seed = mix(seed);
        if (seed & 1)
            all += table[seed & 1023];
        else
            all ^= seed % 1000003;
        __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    }
    return all;
}

void _start(void) {
    sum(5);
}
