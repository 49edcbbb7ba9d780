/* Labels without a size, of which the unwind tables know more than the symbols. */
__asm__(
    ".text\n.globl _start\n.type _start,@function\n_start:\n  nop\n.size _start, .-_start\n"
    /* In no table; then a function without a symbol, which is in one. */
    ".globl bare\nbare:\n  nop\n  nop\n"
    ".globl hidden_function\nhidden_function:\n.cfi_startproc\n  nop\n  nop\n  nop\n.cfi_endproc\n"
    /* In a table, and code behind it that is in none. */
    ".globl covered\ncovered:\n.cfi_startproc\n  nop\n  nop\n.cfi_endproc\n"
    ".globl behind_covered\nbehind_covered:\n  nop\n  nop\n");
