"""Measures what makes folded stacks of a perf.data file: `compare.py [TITLE FILE [more]]`
prints a table, with `more` also of what may take minutes and how much faster two CPUs are than one;
without a file, what the machine and the programs are. For `../perf-data.sh`, which sets what is read
from the environment."""

import datetime
import os
import re
import statistics
import subprocess
import sys
import time

RUNS = int(os.environ["RUNS"])
PYROGRAPH = os.environ["PYROGRAPH"]
INFERNO = os.environ["INFERNO"]
SAMPLY = os.environ["SAMPLY"]
WORK = os.environ["WORK"]


def output(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout.strip()


def describe():
    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    versions = [f"kernel {os.uname().release}", output("perf --version"), output("rustc --version")]
    for name, path in [("inferno-collapse-perf", INFERNO), ("samply", SAMPLY)]:
        if path:
            versions.append(output(f"'{path}' --version") or name)
        else:
            print(f"{name} is not there, and left out")
    machine = f"{os.cpu_count()} CPUs, {cpu[1] if cpu else os.uname().machine}"
    print(f"{datetime.date.today()}: {machine}; {', '.join(versions)}; load {os.getloadavg()[0]:.0f}")


def paths(file, more):
    """Name, command, and the CPUs it may use, of everything to measure."""
    found = [
        ("pyrograph", f"'{PYROGRAPH}' fold '{file}'", None),
        ("pyrograph, one CPU", f"'{PYROGRAPH}' fold '{file}'", {0}),
        ("pyrograph --no-inline", f"'{PYROGRAPH}' fold --no-inline '{file}'", None),
    ]
    if INFERNO:
        collapse = f"| '{INFERNO}' --quiet"
        if more:
            found.append(("perf script, inferno", f"perf script -i '{file}' {collapse}", None))
        command = f"perf script --no-inline -i '{file}' {collapse}"
        found.append(("perf script --no-inline, inferno", command, None))
    command = (
        f"perf report -i '{file}' --no-inline --stdio --no-children -n "
        "-g folded,0,caller,count -s comm"
    )
    found.append(("perf report, folded, no inlined calls", command, None))
    if SAMPLY:
        command = f"'{SAMPLY}' import --presymbolicate --save-only -o '{WORK}/samply.json' '{file}'"
        found.append(("samply", command, None))
    return found


def anonymous(pid):
    """KiB of a process that are in no file."""
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def measure(name, command, cpus):
    """CPU and wall seconds, and KiB: the most, and what of it is in no file."""
    bind = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    is_single = "|" not in command
    start = time.perf_counter()
    child = subprocess.Popen(
        ["sh", "-c", ("exec " if is_single else "") + command],
        preexec_fn=bind, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    beyond = 0
    pid = 0
    while is_single and not pid:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if not pid:
            beyond = max(beyond, anonymous(child.pid))
            time.sleep(0.005)
    if not is_single:
        _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    if status:
        sys.exit(f"{name} failed: {command}")
    return used.ru_utime + used.ru_stime, wall, used.ru_maxrss, beyond


def table(file, more):
    best = {}
    for _ in range(RUNS):
        for path in paths(file, more):
            run = measure(*path)
            best[path[0]] = tuple(map(min, best.get(path[0], run), run))
    print("| path                                   | CPU s   | wall s  | RSS MiB | beyond |")
    print("|----------------------------------------|---------|---------|---------|--------|")
    for name, (cpu, wall, memory, beyond) in best.items():
        beyond = f"{beyond / 1024:6.0f}" if beyond else "      "
        print(f"| {name:<38} | {cpu:7.2f} | {wall:7.2f} | {memory / 1024:7.0f} | {beyond} |")


def scaling(file):
    """How much faster two CPUs are than one, by turns."""
    one, two = [], []
    for _ in range(4 * RUNS):
        one.append(measure("one CPU", f"'{PYROGRAPH}' fold '{file}'", {0}))
        two.append(measure("two CPUs", f"'{PYROGRAPH}' fold '{file}'", {0, 1}))
    median = lambda runs, field: statistics.median(run[field] for run in runs)
    times = median(one, 1) / median(two, 1)
    print(f"\none CPU {median(one, 1):.3f} s, two CPUs {median(two, 1):.3f} s: {times:.2f} times as "
          f"fast; CPU time {median(one, 0):.2f} s and {median(two, 0):.2f} s (medians)")


if len(sys.argv) == 1:
    describe()
else:
    title, file, *more = sys.argv[1:]
    samples = re.search(r"samples +([\d,]*\d)", output(f"'{PYROGRAPH}' info '{file}'"))
    print(f"\n{title}: {os.path.getsize(file) / 1e6:,.0f} MB, {samples[1]} samples\n")
    table(file, more)
    if more:
        scaling(file)
