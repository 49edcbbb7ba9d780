/* A library that `plugins.c` loads; `WORK` is the name of its function. */
#include "spin.h"

#define NAME2(name) name##_inner
#define NAME(name) NAME2(name)

NOINLINE void NAME(WORK)(int units) {
    SPIN(units);
}

void WORK(void) {
    NAME(WORK)(PART);
}
