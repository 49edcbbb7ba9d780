// A library with as many rows of unwind tables as is wanted, and a function NAME that calls back for ever:
// its frame is left by its table alone, and keeps registers over the call.
//
//   gcc -O2 -fomit-frame-pointer -shared -fPIC -DNAME=one -DROWS=90000 -o libone.so rows.c

#define TEXT(x) #x
#define STRING(x) TEXT(x)

// Code that nobody runs, with a row for each 7 bytes.
asm(".text\n"
    "filler:\n"
    ".cfi_startproc\n"
    ".rept " STRING(ROWS) " / 2\n"
    ".skip 7, 0x90\n"
    ".cfi_def_cfa_offset 16\n"
    ".skip 7, 0x90\n"
    ".cfi_def_cfa_offset 8\n"
    ".endr\n"
    ".cfi_endproc\n");

void NAME(void (*call)(unsigned long), unsigned long a)
{
    unsigned long b = a * 3, c = a * 5;

    for (;;) {
        call(b);
        call(c);
        b += c;
    }
}
