/*
 * A program with functions in assembly that have no unwind tables, and use the frame pointer for something
 * else, as such functions do: in the second half of their time it is 0.
 *
 *   main                          total 100
 *     often → outer → inner       total  60   (inner: 45, outer itself: 15)
 *     seldom → outer → inner      total  20   (inner: 15, outer itself:  5)
 *     often → leaf                total  15
 *     seldom → leaf               total   5
 */
#include "spin.h"

/* The loop of `SPIN`, a unit a turn of the counter. */
__asm__(".text\n"
        ".type inner, @function\n"
        "inner:\n"
        "   push %rbp\n"
        "   push %rbx\n"
        "   sub $40, %rsp\n"
        "   mov %rdi, 8(%rsp)\n"
        "   movabs $6364136223846793005, %rbx\n"
        "   mov %rdi, %rcx\n"
        "   mov $1, %eax\n"
        "1: imul %rbx, %rax\n"
        "   inc %rax\n"
        "   dec %rcx\n"
        "   jnz 1b\n"
        "   xor %ebp, %ebp\n"
        "   mov 8(%rsp), %rcx\n"
        "2: imul %rbx, %rax\n"
        "   inc %rax\n"
        "   dec %rcx\n"
        "   jnz 2b\n"
        "   add $40, %rsp\n"
        "   pop %rbx\n"
        "   pop %rbp\n"
        "   ret\n"
        ".size inner, . - inner\n"
        ".globl outer\n"
        ".type outer, @function\n"
        "outer:\n"
        "   push %r12\n"
        "   push %rbp\n"
        "   push %r13\n"
        "   mov %rdi, %r12\n"
        "   xor %ebp, %ebp\n"
        "   imul $3, %rdi, %rdi\n"
        "   call inner\n"
        "   lea (%r12,%r12), %rcx\n"
        "   movabs $6364136223846793005, %r13\n"
        "   mov $1, %eax\n"
        "1: imul %r13, %rax\n"
        "   inc %rax\n"
        "   dec %rcx\n"
        "   jnz 1b\n"
        "   pop %r13\n"
        "   pop %rbp\n"
        "   pop %r12\n"
        "   ret\n"
        ".size outer, . - outer\n"
        ".globl leaf\n"
        ".type leaf, @function\n"
        "leaf:\n"
        "   push %rbp\n"
        "   xor %ebp, %ebp\n"
        "   lea (%rdi,%rdi), %rcx\n"
        "   movabs $6364136223846793005, %rdx\n"
        "   mov $1, %eax\n"
        "1: imul %rdx, %rax\n"
        "   inc %rax\n"
        "   dec %rcx\n"
        "   jnz 1b\n"
        "   pop %rbp\n"
        "   ret\n"
        ".size leaf, . - leaf\n");

void outer(long units);
void leaf(long units);

static NOINLINE void often(void) {
    outer(3 * UNIT);
    leaf(3 * UNIT);
}

static NOINLINE void seldom(void) {
    outer(UNIT);
    leaf(UNIT);
}

int main(void) {
    for (;;) {
        begin_round();
        often();
        seldom();
    }
}
