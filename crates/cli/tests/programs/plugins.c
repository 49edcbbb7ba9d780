/*
 * A program that loads and unloads two libraries by turns, which come to the same address:
 *
 *   main
 *     from_one → from_one_inner     62.5
 *     from_two → from_two_inner     37.5
 *
 * Its arguments are the libraries' names.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    const char *names[2] = {"from_one", "from_two"};
    void *first = NULL;

    if (argc < 3)
        return 2;
    for (long turn = 0;; turn++) {
        void *library = dlopen(argv[1 + turn % 2], RTLD_NOW);
        void (*function)(void) = library ? (void (*)(void))dlsym(library, names[turn % 2]) : NULL;

        if (!function) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        if (!first)
            first = library;
        function();
        dlclose(library);
    }
}
