#!/usr/bin/env python3
"""Writes N distinct folded stacks, the same every time: `flamegraph-stacks.py N > stacks.folded`.

Random walks through a made-up program whose functions call a few others, mostly the same ones:
like a real profile, a few wide paths and very many narrow ones, C++, Rust, C and kernel names,
some recursion, and depths up to 81. Its 200,000 stacks have about 600,000 distinct callers.
"""

import random
import sys

FUNCTIONS = 6000
DEEPEST = 81
SPACES = ["std", "io", "db::index", "net", "llvm", "core::iter", "alloc", "rt::task", "v8", "proto"]
WORDS = ["read", "write", "poll", "flush", "insert", "lookup", "merge", "parse", "encode", "visit",
         "alloc", "free", "lock", "wait", "push", "sort", "hash", "scan", "load", "store"]
NOUNS = ["Block", "Page", "Table", "Node", "Stream", "Buffer", "Frame", "Entry", "Cache", "Queue",
         "Task", "Cursor", "Segment", "Record", "Token", "Range"]


def name(rng, number):
    word, noun = rng.choice(WORDS), rng.choice(NOUNS)
    kind = number % 4
    if kind == 0:
        return f"{rng.choice(SPACES)}::{noun}::{word}"
    if kind == 1:
        return f"{word}_{noun.lower()}{number % 9}"
    if kind == 2:
        return f"{noun}::{word}{number % 9}"
    return f"__{word}_{noun.lower()}_[k]"


def main():
    wanted = int(sys.argv[1])
    rng = random.Random(81)
    names = [name(rng, number) for number in range(FUNCTIONS)]
    callees = [[int(rng.paretovariate(0.5) * 7 + function) * 31 % FUNCTIONS
                for _ in range(rng.randint(1, 7))] for function in range(FUNCTIONS)]
    weights = [[rng.paretovariate(2) for _ in called] for called in callees]
    stacks = {}
    walk, rounds = [], 0
    while len(stacks) < wanted:
        # Most samples of a profile leave the last path late: go on from where it branches off.
        del walk[int(len(walk) * rng.random() ** 0.35):]
        rounds += 1
        if rounds % 6 == 0:
            walk.clear()
        # Now and then something recurses.
        go_on = 0.96 if rounds % 4000 == 0 else 0.8
        while len(walk) < DEEPEST - 2:
            function = rng.choices(callees[walk[-1]], weights[walk[-1]])[0] if walk else 0
            walk.append(function)
            if rng.random() > go_on:
                break
        path = "server;main;" + ";".join(names[f] for f in walk)
        stacks.setdefault(path, 1 + int(rng.paretovariate(1.2)))
    out = sys.stdout
    for path, count in stacks.items():
        out.write(f"{path} {count}\n")


main()
