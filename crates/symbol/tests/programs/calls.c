/* Known calls, one function a line where lines matter. MARK puts a label into the code, so that a
   test knows an address in it without trusting debug information. */
#include <stdio.h>
#include <stdlib.h>

#define MARK(name) __asm__ volatile(#name ": nop")

static inline __attribute__((always_inline)) int leaf(int x) {
    MARK(mark_leaf); return x * 3;                                      /* line 9 */
}

static inline __attribute__((always_inline)) int middle(int x) {
    return leaf(x) + 1;                                                 /* line 13 */
}

__attribute__((noinline)) int outer(int x) {
    return middle(x + 1) * 5;                                           /* line 17 */
}

static __attribute__((noinline, used)) int hidden(int x) {
    MARK(mark_hidden); return x ^ 0x55;                                 /* line 21 */
}

__attribute__((noinline)) int alias_target(int x) {
    MARK(mark_alias); return x + 11;                                    /* line 25 */
}
int __alias_of_target(int) __attribute__((alias("alias_target")));
int alias_weak_and_longer(int) __attribute__((weak, alias("alias_target")));

/* A label that is a function to its callers, as in hand-written assembly: no type, no size; then
   padding after a function with a size. */
__asm__(".section .text.zz_asm,\"ax\",@progbits\n"
        ".globl bare_label\nbare_label:\n  nop\n  nop\n"
        ".globl sized\n.type sized,@function\nsized:\n  nop\n  nop\n.size sized, .-sized\n"
        ".globl mark_gap\n.set mark_gap, sized + 3\n"
        "  nop\n  nop\n  nop\n  nop\n"
        ".text\n");
int bare_label(void);

int main(int argc, char **argv) {
    MARK(mark_main);
    if (argc > 100) return bare_label();
    char *text = getenv("HOME");
    int result = outer(argc) + hidden(argc) + __alias_of_target(argc) + atoi(argv[0]);
    if (!text) return 1;
    return puts("done") + result == 7;
}
