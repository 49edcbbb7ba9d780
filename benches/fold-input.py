#!/usr/bin/env python3
"""perf script text as a system-wide recording looks: fold-input.py SAMPLES SEED > text

Processes call their way down a random but fixed call graph; some functions, and some places in
them, are much more frequent than others. From 150,000 samples come 119 MB and as many distinct
stacks as a machine that compiles programs shows: one for every three samples.
"""
import random
import sys

samples, seed = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)

MODULES = ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/python3.11", "/usr/lib/jvm/java-17/lib/server/libjvm.so",
           "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "/home/me/project/target/release/server"]
WORDS = "alloc node tree list read write hash map next parse find page lock copy free init work call queue time".split()


def make_name(number):
    words = [WORDS[number % 20], WORDS[number // 20 % 20], WORDS[number // 400 % 20]]
    if number % 5 == 0:
        return f"ns::{words[0].title()}<ns::{words[1].title()}*, std::allocator<char>>::{words[2]}(int, char const*) const"
    if number % 7 == 0:
        return f"<{words[0]}::{words[1].title()} as core::iter::{words[2].title()}>::next"
    return "_".join(words) + str(number)


def make_functions(count, modules, kernel):
    functions = []
    for number in range(count):
        base = (0xFFFFFFFF81000000 if kernel else 0x10000) + number * 0x400
        functions.append((base, make_name(number), rng.choice(modules)))
    return functions


kernel = make_functions(3000, ["[kernel.kallsyms]"] * 9 + ["[ext4]"], True)
user = make_functions(12000, MODULES, False)


def skewed(count, power=4):
    return min(count - 1, int(count * rng.random() ** power))


# Each function calls a few others.
calls = {id(functions): [[rng.randrange(len(functions)) for _ in range(5)] for _ in functions] for functions in (kernel, user)}


def walk(functions, depth):
    at = skewed(20)
    frames = []
    for _ in range(depth):
        base, name, module = functions[at]
        offset = 4 * skewed(200) + 1
        frames.append(f"\t{base + offset:16x} {name}+0x{offset:x} ({module})\n")
        at = calls[id(functions)][at][skewed(5, 30)]
    return frames


out = []
time = 1000.0
for number in range(samples):
    time += rng.random() / 1000
    comm = rng.choice(["rustc", "cc1", "java", "my server", "swapper", "kworker/0:1-ev", "node"])
    frames = walk(user, 2 + skewed(30)) if comm not in ("swapper", "kworker/0:1-ev") else []
    if not frames or rng.random() < 0.3:
        frames += walk(kernel, 3 + skewed(15))
    out.append(f"{comm} {1000 + skewed(400)} [{number % 8:03}] {time:.6f}:   10101010 cpu-clock: \n")
    out.extend(reversed(frames))
    out.append("\n")
    if len(out) > 100000:
        sys.stdout.write("".join(out))
        out.clear()
sys.stdout.write("".join(out))
