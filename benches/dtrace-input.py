#!/usr/bin/env python3
"""DTrace's text of a system-wide profile: dtrace-input.py STACKS SEED > text

One aggregation by kernel and user stack, as `@[stack(), ustack()] = count()` prints it. Processes call
their way down a random but fixed call graph; each function calls a few others, mostly the first, at a few
places. Stacks differ mostly in those places, as they do where such text was recorded: there are seven or
eight to one of folded text.
"""
import random
import sys

stacks, seed = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)
WORDS = "alloc node tree list read write hash map next parse find page lock copy free init work call queue time".split()


def make_functions(count, modules):
    functions = []
    for number in range(count):
        words = [WORDS[number % 20], WORDS[number // 20 % 20], WORDS[number // 400 % 20]]
        name = "_".join(words) + str(number)
        if number % 5 == 0:
            name = f"ns::{words[0].title()}<ns::{words[1].title()}*>::{words[2]}(int, char const*)"
        functions.append((f"{modules[number % len(modules)]}`{name}", [rng.randrange(count) for _ in range(5)]))
    return functions


kernel = make_functions(3000, ["genunix", "genunix", "unix", "zfs", "ip"])
user = make_functions(12000, ["libc.so.1", "libjvm.so", "server", "node"])


def skewed(count, power):
    return min(count - 1, int(count * rng.random() ** power))


def walk(functions, depth):
    at = skewed(20, 6)
    frames = []
    for _ in range(depth):
        name, calls = functions[at]
        frames.append(f"              {name}+0x{4 * skewed(60, 4) + 1:x}\n")
        at = calls[skewed(5, 200)]
    frames.reverse()
    return frames


out = ["CPU     ID                    FUNCTION:NAME\n", "  0  64091                        :tick-60s \n", "\n"]
for _ in range(stacks):
    out.append("\n")
    out.extend(walk(kernel, 8 + skewed(8, 3)))
    out.append("\n")
    out.extend(walk(user, 12 + skewed(10, 3)))
    out.append(f"{1 + skewed(300, 8):17}\n")
    if len(out) > 100000:
        sys.stdout.write("".join(out))
        out.clear()
sys.stdout.write("".join(out))
