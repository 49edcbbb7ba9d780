// Stands for a kernel: functions of which two have one name, as they have in many files of a kernel.
volatile int count;

static __attribute__((noinline)) void poll(int of) {
    for (int i = 0; i < of; i++)
        count += i;
}

__attribute__((noinline)) void read_zero(int of) {
    for (int i = 0; i < of; i++)
        count ^= of;
    poll(of);
}

void _start(void) {
    read_zero(5);
}
