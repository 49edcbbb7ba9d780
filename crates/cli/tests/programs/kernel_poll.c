// See kernel.c.
extern volatile int count;

static __attribute__((noinline)) void poll(int of) {
    while (of-- > 0)
        count -= of;
}

void poll_all(int of) {
    poll(of);
    poll(of + 1);
}
