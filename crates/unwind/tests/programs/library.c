// Calls of a C library that has no unwind tables, one of which calls back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int numbers[64]; static char text[512], copy[512];
int main(void) {
    for (int i = 0; i < 64; i++) numbers[i] = (i * 7919) % 101;
    qsort(numbers, 64, sizeof *numbers, compare);
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%d %s %f %x %5.2e", i, "word", i * 1.5, i * 77, 3.25 * i);
        memcpy(copy, text, sizeof copy);
        memmove(copy + 1, copy, 300);
        memset(text, i, sizeof text);
    }
    char *p = malloc(1000); p = realloc(p, 100000); free(p);
    printf("%s %d\n", copy, numbers[3]);
    return strtol("123", 0, 10) == 123 ? 0 : 1;
}
