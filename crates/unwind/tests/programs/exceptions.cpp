// Throws through several frames, with objects to destroy on the way, and rethrows.
#include <stdexcept>
#include <string>
#include <vector>

struct Guard {
    std::vector<int> &log;
    ~Guard() { log.push_back(1); }
};

__attribute__((noinline)) static int deepest(int n, std::vector<int> &log) {
    Guard guard{log};
    if (n % 3 == 0) throw std::runtime_error("three " + std::to_string(n));
    if (n % 3 == 1) throw n;
    return n;
}

__attribute__((noinline)) static int deeper(int depth, int n, std::vector<int> &log) {
    Guard guard{log};
    if (depth == 0) return deepest(n, log);
    return deeper(depth - 1, n, log) + 1;
}

__attribute__((noinline)) static int rethrows(int n, std::vector<int> &log) {
    try {
        return deeper(2, n, log);
    } catch (const std::exception &error) {
        log.push_back((int)std::string(error.what()).size());
        throw;
    }
}

int main() {
    std::vector<int> log;
    int sum = 0;
    for (int n = 0; n < 3; n++) {
        try {
            sum += rethrows(n, log);
        } catch (int value) {
            sum += value;
        } catch (const std::exception &) {
            sum += 100;
        }
    }
    return sum == 0 || log.empty();
}
