#!/usr/bin/env python3
"""Turns folded stacks into a profile with times, the same every time: `samples.py N < stacks.folded > profile.json`.

N samples of eight threads over 250 seconds, as the Firefox Profiler's processed format has them, which Pyrograph and
speedscope read. Stacks come as often as their counts say, one after the other in bursts, as in a real program.
"""

import itertools
import json
import random
import sys

THREADS = 8
MILLISECONDS = 250_000


class Thread:
    def __init__(self, number):
        self.number = number
        self.strings, self.functions, self.stacks = {}, {}, {}
        self.prefixes, self.leaves = [], []
        self.samples, self.times = [], []

    def string(self, text):
        return self.strings.setdefault(text, len(self.strings))

    def stack(self, line):
        at = None
        for name in line.split(";"):
            function = self.functions.setdefault(self.string(name), len(self.functions))
            key = (at, function)
            if key not in self.stacks:
                self.stacks[key] = len(self.stacks)
                self.prefixes.append(at)
                self.leaves.append(function)
            at = self.stacks[key]
        return at

    def table(self):
        functions, count = list(self.functions), len(self.functions)
        empty = [None] * count
        return {
            "name": f"worker {self.number}", "processType": "default", "processName": "app", "isMainThread": self.number == 0,
            "processStartupTime": 0, "processShutdownTime": None, "registerTime": 0, "unregisterTime": None,
            "pausedRanges": [], "pid": "700", "tid": 700 + self.number,
            "samples": {"stack": self.samples, "time": self.times, "weight": None, "weightType": "samples",
                        "length": len(self.samples)},
            "markers": {"data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0},
            "stackTable": {"frame": self.leaves, "prefix": self.prefixes, "category": [0] * len(self.leaves),
                           "subcategory": [0] * len(self.leaves), "length": len(self.leaves)},
            "frameTable": {"address": [-1] * count, "inlineDepth": [0] * count, "category": [0] * count,
                           "subcategory": [0] * count, "func": list(range(count)), "nativeSymbol": empty,
                           "innerWindowID": empty, "implementation": empty, "line": empty, "column": empty, "length": count},
            "funcTable": {"name": functions, "isJS": [False] * count, "relevantForJS": [False] * count,
                          "resource": [-1] * count, "fileName": empty, "lineNumber": empty, "columnNumber": empty,
                          "length": count},
            "resourceTable": {"lib": [], "name": [], "host": [], "type": [], "length": 0},
            "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
            "stringArray": list(self.strings),
        }


def main():
    wanted = int(sys.argv[1])
    rng = random.Random(17)
    lines = [line.rsplit(" ", 1) for line in sys.stdin]
    stacks = [stack for stack, _ in lines]
    sums = list(itertools.accumulate(int(count) for _, count in lines))
    threads = [Thread(number) for number in range(THREADS)]
    known = [{} for _ in threads]
    time = 0.0
    while wanted > 0:
        place = rng.randrange(THREADS)
        thread = threads[place]
        chosen = rng.choices(range(len(stacks)), cum_weights=sums)[0]
        if chosen not in known[place]:
            known[place][chosen] = thread.stack(stacks[chosen])
        for _ in range(min(wanted, 1 + int(rng.expovariate(0.5)))):
            time += rng.expovariate(1) * MILLISECONDS / float(sys.argv[1])
            thread.samples.append(known[place][chosen])
            thread.times.append(round(time, 3))
            wanted -= 1
    json.dump({
        "meta": {"interval": 1, "startTime": 0, "version": 27, "preprocessedProfileVersion": 47, "product": "app",
                 "processType": 0, "stackwalk": 1, "debug": False, "symbolicated": True,
                 "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}], "markerSchema": []},
        "libs": [], "pages": [], "threads": [thread.table() for thread in threads],
    }, sys.stdout, separators=(",", ":"))


main()
