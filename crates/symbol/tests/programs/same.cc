// Functions that have the same code, as compilers and linkers leave them, and functions with several names.
#define MARK(name) __asm__ volatile(#name ": nop")
#define KEPT extern "C" __attribute__((noinline, used))
#define SAME(name) __attribute__((used, alias(name)))

KEPT long alpha(long x) { MARK(mark_alpha); return x * 3; }
extern "C" long beta(long) SAME("alpha");

__attribute__((noinline, used)) long price(int x) { MARK(mark_price); return x * 5; }
long cost_of_it(double) SAME("_Z5pricei");
namespace shop {
long total(int, int) SAME("_Z5pricei");
long sum_of_all(long) SAME("_Z5pricei");
long count_of_all(long) SAME("_Z5pricei");
}

// C libraries have several names for a function.
KEPT long one(long x) { MARK(mark_one); return x * 7; }
extern "C" long __one(long) SAME("one");
extern "C" long one64(long) SAME("one");
extern "C" __attribute__((weak)) long another(long) SAME("one");

int main(int argc, char **) { return alpha(argc) + price(argc) + one(argc); }
