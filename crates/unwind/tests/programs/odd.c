// A function in assembly, without tables, that makes a frame whose size is nowhere to be seen: it is known from a word
// that it keeps far from its stack.
typedef int (*Callback)(int);

int odd(long size, Callback callback, int argument);
long kept;

__asm__(
    ".globl odd\n"
    ".type odd, @function\n"
    "odd:\n"
    "    mov %rdi, kept(%rip)\n"
    "    sub %rdi, %rsp\n"
    "    mov %edx, %edi\n"
    "    mov %rsi, %rax\n"
    "    xor %edx, %edx\n"
    "1:  mov %rdx, (%rsp,%rdx,8)\n"
    "    inc %edx\n"
    "    cmp $4, %edx\n"
    "    jne 1b\n"
    "    call *%rax\n"
    "    add kept(%rip), %rsp\n"
    "    ret\n");

static volatile int sum;

__attribute__((noinline)) static int add(int n) {
    for (int i = 0; i < n; i++) sum += i;
    return sum;
}

__attribute__((noinline)) static int between(int n) {
    volatile char room[200];
    room[n] = (char)n;
    return odd(72 + 16 * n, add, n) + room[n];
}

int main(void) {
    int all = 0;
    for (int n = 0; n < 40; n++) all += between(n);
    return all == 0;
}
