// Two functions that have the same code, as linkers leave them (`--icf`).
#include "spin.h"

extern "C" NOINLINE void packs(int units) {
    SPIN(units);
}

extern "C" void sends(int) __attribute__((used, alias("packs")));

int main() {
    packs(400);
    return 0;
}
