/* Waits for whoever watches functions to put breakpoints into them. */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { CODE = 16, MOST = 16 };

/*
 * Calls `begin` after the functions were looked at, and waits for up to 20 s until each has changed. The kernel puts a breakpoint in
 * place before the recorder attaches a program to it, and a recorder that waits for a CPU may do so much later.
 */
static bool wait_for_breakpoints(void *const *functions, int count, void (*begin)(void)) {
    char code[MOST][CODE];
    for (int i = 0; i < count; i++)
        memcpy(code[i], functions[i], CODE);
    if (begin != 0)
        begin();
    for (int tries = 0; tries < 2000; tries++) {
        int changed = 0;
        for (int i = 0; i < count; i++)
            changed += memcmp(code[i], functions[i], CODE) != 0;
        if (changed == count) {
            usleep(500000);
            return true;
        }
        usleep(10000);
    }
    return false;
}
