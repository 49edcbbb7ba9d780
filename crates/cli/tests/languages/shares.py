# Spends 60, 30 and 10 % of its thread's CPU time in `heavy`, `ordered` and `light`, for as many seconds as its argument
# says, and prints what each took by that clock, in ns. `ordered` is called by the `key` of a `sort`.
import sys
import time

SHARES = {"heavy": 60, "ordered": 30, "light": 10}
spent = dict.fromkeys(SHARES, 0)


def heavy():
    total = 0
    for i in range(20_000):
        total += i % 7
    return total


def ordered():
    total = 0
    for i in range(20_000):
        total += i % 5
    return total


def light():
    total = 0
    for i in range(20_000):
        total += i % 3
    return total


def measured(function):
    start = time.thread_time_ns()
    function()
    spent[function.__name__] += time.thread_time_ns() - start


def key(number):
    measured(ordered)
    return -number


def run(name):
    if name == "ordered":
        [1, 2].sort(key=key)
    else:
        measured(globals()[name])


end = time.thread_time() + float(sys.argv[1])
while time.thread_time() < end:
    # The one that is furthest behind.
    run(min(SHARES, key=lambda name: spent[name] / SHARES[name]))
for name in SHARES:
    print(name, spent[name])
