#!/usr/bin/env python3
"""Big files as other tools write them: formats-input.py FORMAT MEGABYTES SEED > text

FORMAT is sample, vtune, vsprof, xctrace or ghcprof, in the words of inferno's collapsers, or folded, recursive
or pprof. All but pprof (which has the stacks of folded) are one random call tree after another: functions call a
few others, up to 40 calls deep, and mostly the same.
"""
import gzip
import random
import sys

what, megabytes, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
out = sys.stdout
WORDS = "alloc node tree list read write hash map next parse find page lock copy free init work call queue time".split()
MODULES = ["libsystem_c.dylib", "app", "libjvm.dylib", "libc++.1.dylib", "server"]


def make_name(number):
    words = [WORDS[number % 20], WORDS[number // 20 % 20], WORDS[number // 400 % 20]]
    if number % 5 == 0:
        return f"ns::{words[0].title()}<ns::{words[1].title()}*>::{words[2]}(int, char const*)"
    return "_".join(words) + str(number)


FUNCTIONS = [(make_name(n), MODULES[n % 5], [rng.randrange(8000) for _ in range(4)]) for n in range(8000)]


def tree(function, total, depth):
    """Lines of a call tree, callers first: (depth, function, total, own)."""
    calls = []
    rest = total
    if depth < 40:
        for callee in FUNCTIONS[function][2]:
            share = int(rest * rng.random())
            if share > 0:
                calls.append((callee, share))
                rest -= share
    # As of what is sampled, nearly all time is that of the innermost functions.
    if calls and rng.random() < 0.95:
        calls[0] = calls[0][0], calls[0][1] + rest
        rest = 0
    yield depth, function, total, rest
    for callee, share in calls:
        yield from tree(callee, share, depth + 1)


def trees():
    while True:
        yield tree(rng.randrange(20), 4000, 0)


def limited(lines):
    left = int(megabytes * 1e6)
    for line in lines:
        out.write(line)
        left -= len(line)
        if left < 0:
            return


def sample():
    out.write("Analysis of sampling app (pid 123) every 1 millisecond\nCall graph:\n")
    for number, lines in enumerate(trees()):
        yield f"    4000 Thread_{number}\n"
        for depth, function, total, _ in lines:
            name, module, _ = FUNCTIONS[function]
            marks = "".join("+ ! : | "[2 * (level % 4) :][:2] for level in range(depth + 1))
            yield f"    {marks}{total} {name}  (in {module}) + {function}  [0x{0x7FFF00000000 + 16 * function:x}]\n"


def vtune():
    out.write("Function Stack,CPU Time:Self,Module\n")
    for lines in trees():
        for depth, function, _, own in lines:
            name, module, _ = FUNCTIONS[function]
            yield f"{' ' * depth + name.replace(',', '')},{own / 1000:.6f},{module}\n"


def vsprof():
    out.write("Level,Function Name,Number of Calls,Elapsed Inclusive Time %,Elapsed Exclusive Time %,"
              "Avg Elapsed Inclusive Time,Avg Elapsed Exclusive Time,Module Name,\n")
    for lines in trees():
        for depth, function, total, own in lines:
            name, module, _ = FUNCTIONS[function]
            yield (f'{depth + 1},"{name}","{own:,}","{total / 40:,.2f}","{own / 40:,.2f}","{total / 7:,.2f}",'
                   f'"{own / 7:,.2f}","{module}",\n')


def xctrace():
    out.write("<?xml version=\"1.0\"?>\n<trace-query-result>\n<node xpath='//trace-toc[1]/run[1]/data[1]/table[11]'>"
              '<schema name="time-profile"></schema>\n')
    ids = iter(range(1, 1 << 62))
    process, weight = next(ids), next(ids)
    frames = {}
    first = True
    time = 0
    for lines in trees():
        path = []
        for depth, function, _, own in lines:
            path[depth:] = [function]
            for _ in range(min(own, 3)):
                time += 1_000_000
                row = f'<row><sample-time id="{next(ids)}" fmt="x">{time}</sample-time>'
                if first:
                    row += (f'<thread id="{next(ids)}" fmt="main 0x1a2b (app, pid: 42)"><tid id="{next(ids)}" fmt="0x1a2b">6699'
                            f'</tid><process id="{process}" fmt="app (42)"><pid id="{next(ids)}" fmt="42">42</pid></process>'
                            f'</thread><weight id="{weight}" fmt="1 ms">1000000</weight>')
                    thread = int(row.split('<thread id="')[1].split('"')[0])
                    first = False
                else:
                    row += f'<thread ref="{thread}"/><weight ref="{weight}"/>'
                row += f'<backtrace id="{next(ids)}">'
                for at in reversed(path):
                    if at in frames:
                        row += f'<frame ref="{frames[at]}"/>'
                    else:
                        frames[at] = next(ids)
                        name = FUNCTIONS[at][0].replace("<", "&lt;").replace(">", "&gt;")
                        row += f'<frame id="{frames[at]}" name="{name}" addr="0x{16 * at:x}"/>'
                yield row + "</backtrace></row>\n"


def ghcprof():
    out.write("\tSat Nov 21 12:55 2026 Time and Allocation Profiling Report  (Final)\n\n\t   m +RTS -P -RTS\n\n"
              "\ttotal time  =        0.02 secs   (19 ticks @ 1000 us, 1 processor)\n"
              "\ttotal alloc =  23,145,584 bytes  (excludes profiling overheads)\n\n"
              "COST CENTRE MODULE    SRC             %time %alloc  ticks     bytes\n\n"
              "fib         Main      Main.hs:4:1-60   94.7   99.7      18  23000000\n\n\n")
    width = 110
    blank = " " * 63
    title = "COST CENTRE" + " " * (width - 11) + "MODULE  SRC                   no.     entries  %time %alloc   %time %alloc  ticks     bytes\n"
    out.write(" " * (title.index("%time") - 1) + "individual      inherited\n" + title + "\n")
    number = 0
    for lines in trees():
        for depth, function, total, own in lines:
            number += 1
            name = FUNCTIONS[function][0].split("(")[0].replace(" ", "")
            label = " " * depth + name
            yield (f"{label:<{width}}{'Main':<8}{'Main.hs:4:1-60':<22}{number:<10}{total:>5}  {own / 40:5.1f}  {own / 40:5.1f}  "
                   f"{total / 40:5.1f}  {total / 40:5.1f}  {own:5} {100 * own:9}\n")


def stacks():
    for lines in trees():
        path = []
        for depth, function, _, own in lines:
            path[depth:] = [FUNCTIONS[function][0]]
            if own:
                yield path, own


def folded():
    for path, own in stacks():
        yield f"app;{';'.join(path)} {own}\n"


def recursive():
    for path, own in stacks():
        yield "app;" + ";".join(";".join([name] * (1 + len(name) % 3)) for name in path) + f" {own}\n"


def varint(number):
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    data.append(number)
    return bytes(data)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def pprof():
    """Profile of pprof/proto/profile.proto, gzipped: its size is that before."""
    strings = ["", "samples", "count", "cpu", "nanoseconds"] + [name for name, _, _ in FUNCTIONS]
    parts = [field(1, field(1, 1) + field(2, 2)), field(1, field(1, 3) + field(2, 4))]
    locations = {}
    size = 0
    # Several locations a function, as there are several calls in each.
    for lines in trees():
        path = []
        for depth, function, _, own in lines:
            path[depth:] = [(function, rng.randrange(4))]
            if own:
                ids = b"".join(varint(locations.setdefault(at, len(locations) + 1)) for at in reversed(path))
                parts.append(field(2, field(1, ids) + field(2, varint(own) + varint(own * 10_000_000))))
                size += len(parts[-1])
        if size > megabytes * 1e6:
            break
    for (function, place), number in locations.items():
        line = field(1, function + 1) + field(2, 10 + place)
        parts.append(field(4, field(1, number) + field(3, 4096 + 16 * (4 * function + place)) + field(4, line)))
    for number in range(len(FUNCTIONS)):
        parts.append(field(5, field(1, number + 1) + field(2, 5 + number)))
    parts += [field(6, text.encode()) for text in strings]
    parts += [field(11, field(1, 3) + field(2, 4)), field(12, 10_000_000)]
    sys.stdout.buffer.write(gzip.compress(b"".join(parts), 6))


if what == "pprof":
    pprof()
else:
    limited(globals()[what]())
    out.write({"xctrace": "</node></trace-query-result>\n", "sample": "\nTotal number in stack\n"}.get(what, ""))
