// Computes for ever in three chains of calls, 60 : 30 : 10, through 5 MB of code that has no unwind tables and keeps no frame
// pointer: each function is far from the next one.
asm(".text\n"
    ".altmacro\n"
    ".macro link chain, at, next\n"
    ".globl \\chain\\()_\\at\n"
    ".type \\chain\\()_\\at, @function\n"
    "\\chain\\()_\\at:\n"
    "	sub $24, %rsp\n"
    "	call \\chain\\()_\\next\n"
    "	add $24, %rsp\n"
    "	ret\n"
    // lea 0(%rax,%rax,1),%rax
    "	.fill 3000, 8, 0x848d48\n"
    ".size \\chain\\()_\\at, . - \\chain\\()_\\at\n"
    ".endm\n"
    ".macro chain name, rounds\n"
    ".set i, 0\n"
    ".rept 70\n"
    "link name, %i, %(i+1)\n"
    ".set i, i + 1\n"
    ".endr\n"
    ".globl \\name\\()_70\n"
    ".type \\name\\()_70, @function\n"
    "\\name\\()_70:\n"
    "	mov $\\rounds, %ecx\n"
    // Across two lines of the cache some processors take twice as long.
    "	.p2align 6\n"
    "1:	dec %ecx\n"
    "	jnz 1b\n"
    "	ret\n"
    ".size \\name\\()_70, . - \\name\\()_70\n"
    ".endm\n"
    "chain sixty, 600000\n"
    "chain thirty, 300000\n"
    "chain ten, 100000\n"
    ".noaltmacro\n");

void sixty_0(void);
void thirty_0(void);
void ten_0(void);

int main(void) {
	for (;;) {
		sixty_0();
		thirty_0();
		ten_0();
	}
}
