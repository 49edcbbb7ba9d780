/* Maps a library and starts nothing in it: `no_machine LIBRARY [handler]`. SIGQUIT ends it: with `handler` by its own
   handler, which exits with 3. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void quit(int number) { _exit(3); }

int main(int count, char **words) {
    if (!dlopen(words[1], RTLD_NOW)) {
        puts(dlerror());
        return 1;
    }
    if (count > 2) signal(SIGQUIT, quit);
    volatile unsigned x = 0;
    while (clock() < CLOCKS_PER_SEC)
        for (int i = 0; i < 100000; i++) x = x * 31 + i;
    return 0;
}
