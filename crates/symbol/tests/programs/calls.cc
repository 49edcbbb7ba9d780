// Known calls in C++: namespaces, templates, lambdas, all inlined but `run`.
#include <functional>

#define MARK(name) __asm__ volatile(#name ": nop")

namespace app {
namespace {
struct Hidden {
    __attribute__((always_inline)) int operator()(int x) const { MARK(mark_hidden); return x * 7; }
};
}

template <class T> struct Box {
    T value;
    __attribute__((always_inline)) T add(T other) { MARK(mark_box); return value + other; } // 15
};

__attribute__((noinline)) int run(int x) {
    auto twice = [&](int y) __attribute__((always_inline)) { MARK(mark_lambda); return y * x; }; // 19
    Box<int> box{x};
    return box.add(1) + twice(x) + Hidden()(x); // 21
}
}

__attribute__((noinline)) static int call(const std::function<int(int)>& f, int x) { return f(x); }

int main(int argc, char**) {
    return call([=](int y) { MARK(mark_called); return y + argc; }, argc) + app::run(argc); // 28
}
