// Functions to annotate: templates, virtual calls and the standard library.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shapes {
struct Shape {
    virtual ~Shape() = default;
    virtual double area(double scale) const = 0;
};
struct Square : Shape {
    double side = 2;
    __attribute__((noinline)) double area(double scale) const override {
        double all = 0;
        for (int i = 0; i < 60; i++)
            all += side * side / (scale + i);
        return all;
    }
};
struct Circle : Shape {
    double radius = 1;
    __attribute__((noinline)) double area(double scale) const override {
        double all = 3.14159;
        for (int i = 0; i < 60; i++)
            all = all * radius + scale / (i + 1);
        return all;
    }
};
}

template <typename T>
__attribute__((noinline)) T total(const std::vector<T> &values) {
    T all = 0;
    for (const T &value : values)
        all += value ^ (all >> 3);
    return all;
}

__attribute__((noinline)) uint64_t hash(const std::string &text) {
    uint64_t all = 1469598103934665603u;
    for (unsigned char c : text)
        all = (all ^ c) * 1099511628211u;
    return all;
}

__attribute__((noinline)) void shuffle(std::vector<uint64_t> &values, uint64_t seed) {
    for (size_t i = values.size() - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        std::swap(values[i], values[(seed >> 33) % (i + 1)]);
    }
}

int main() {
    std::vector<uint64_t> values(2000);
    for (size_t i = 0; i < values.size(); i++)
        values[i] = i * 2654435761u;
    std::vector<std::unique_ptr<shapes::Shape>> all;
    all.push_back(std::make_unique<shapes::Square>());
    all.push_back(std::make_unique<shapes::Circle>());
    std::map<uint64_t, uint64_t> seen;
    uint64_t sum = 0;
    double areas = 0;
    for (int round = 0; round < 1600; round++) {
        shuffle(values, sum);
        std::sort(values.begin(), values.end());
        sum += total(values);
        sum += hash(std::string(2000, 'a' + round % 26));
        for (int i = 0; i < 300; i++)
            areas += all[i % 2]->area(1 + i);
        for (int i = 0; i < 300; i++)
            seen[(sum >> (i % 40)) % 1000]++;
    }
    printf("%llu %f %zu\n", (unsigned long long)sum, areas, seen.size());
}
