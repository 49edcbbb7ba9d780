// Calls that the compiler inlines: lambdas, templates, methods, and what the library does in a sort.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

template <typename F> static inline uint64_t apply(const std::vector<uint64_t> &values, F f)
{
    uint64_t sum = 0;
    for (uint64_t value : values)
        sum += f(value);
    return sum;
}

struct Mixer {
    uint64_t seed;
    inline __attribute__((always_inline)) uint64_t step(uint64_t value) const { return rounds(value ^ seed); }
    inline __attribute__((always_inline)) uint64_t rounds(uint64_t value) const
    {
        for (int i = 0; i < 16; i++)
            value = (value << 7 | value >> 57) * 0x9e3779b97f4a7c15u + i;
        return value;
    }
};

__attribute__((noinline)) uint64_t mixed(const std::vector<uint64_t> &values)
{
    Mixer mixer{values.size()};
    return apply(values, [&](uint64_t value) { return mixer.step(value); });
}

__attribute__((noinline)) uint64_t sorted(std::vector<uint64_t> values)
{
    std::sort(values.begin(), values.end(), [](uint64_t a, uint64_t b) { return a * 3 < b * 3; });
    return values[values.size() / 2];
}

int main()
{
    std::vector<uint64_t> values(4000);
    uint64_t state = 1, sum = 0;
    for (int round = 0; round < 400; round++) {
        for (auto &value : values)
            value = state = state * 6364136223846793005u + 1;
        for (int again = 0; again < 10; again++)
            sum += mixed(values);
        sum += sorted(values);
    }
    return sum == 42;
}
