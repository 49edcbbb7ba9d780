#!/bin/sh
# perf script text to folded stacks: pyrograph and, where it is installed, inferno-collapse-perf,
# side by side. Makes its own input and fetches nothing. `benches/fold.sh [FILE...]` measures files
# of yours instead.
#
# INFERNO is the path of inferno-collapse-perf (cargo install inferno), RUNS how often each runs, in
# turn; figures are the best of the runs: others on the machine can only make them worse. CPUS binds
# all of it to these CPUs (as taskset -c does; default 0, so that CPU time is that of one core).
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
runs=${RUNS:-7}
pyrograph=${PYROGRAPH:-$top/target/release/pyrograph}
inferno=${INFERNO:-$(command -v inferno-collapse-perf || true)}

[ -n "${PYROGRAPH:-}" ] || cargo build --quiet --release -p pyrograph
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

measure() { # INPUT, then COMMANDs, each NAME=COMMAND with the input in place of {}
    python3 - "$runs" "${CPUS:-0}" "$@" <<'EOF'
import os, shlex, subprocess, sys, time
runs, cpus, path, *commands = sys.argv[1:]
os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
size = os.path.getsize(path) / 1e6
best = {}
for _ in range(int(runs)):
    for command in commands:
        name, command = command.split("=", 1)
        words = [path if word == "{}" else word for word in shlex.split(command)]
        start = time.perf_counter()
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        if status:
            sys.exit(f"{name} failed: {words}")
        run = (used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss)
        best[name] = tuple(map(min, best.get(name, run), run))
for name, (cpu, wall, memory) in best.items():
    print(f"| {name:<22} | {cpu:7.3f} | {wall:7.3f} | {size / cpu:9.0f} | {memory / 1024:8.0f} |")
EOF
}

compare() { # TITLE INPUT
    echo
    echo "$1: $(($(wc -c < "$2") / 1000000)) MB"
    echo
    echo "| program                | CPU s   | wall s  | MB/CPU s  | RSS MiB  |"
    echo "|------------------------|---------|---------|-----------|----------|"
    if [ -n "$inferno" ]; then
        measure "$2" "pyrograph=$pyrograph fold {}" "inferno-collapse-perf=$inferno --quiet --nthreads 1 {}"
    else
        measure "$2" "pyrograph=$pyrograph fold {}"
    fi
}

if [ $# -gt 0 ]; then
    for input in "$@"; do compare "$input" "$input"; done
    exit
fi

# A recording of one program repeats itself: 4 MB, over and over.
python3 "$top/benches/fold-input.py" 5000 2 > "$work/once"
for _ in $(seq 250); do cat "$work/once"; done > "$work/repeated"
compare "repeated text" "$work/repeated"
rm "$work/repeated"

# Nine of ten samples differ from all others, by an address at least.
python3 "$top/benches/fold-input.py" 500000 1 > "$work/system"
compare "system-wide, many distinct stacks" "$work/system"

# Without callchains each sample is a line. inferno leaves such samples out.
grep cpu-clock "$work/system" | sed 's/$/ ffffffff815eba2a __handle_mm_fault+0x7a ([kernel.kallsyms])/' > "$work/lines"
for _ in 1 2 3 4 5; do cat "$work/lines"; done > "$work/no-callchains"
inferno=
compare "one line a sample" "$work/no-callchains"
rm "$work"/*

# Folded text is read, too. No other tool folds it.
for stacks in 72000 1000000; do
    python3 "$top/benches/flamegraph-stacks.py" "$stacks" > "$work/folded"
    compare "$stacks distinct folded stacks" "$work/folded"
done
