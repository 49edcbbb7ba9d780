#!/bin/sh
# Files of other profilers to folded stacks: pyrograph and, where they are installed, inferno's
# collapsers and `go tool pprof`, side by side. Makes its own input and fetches nothing.
# `benches/formats.sh FILE...` measures DTrace text of yours instead.
#
# INFERNO is the folder of the inferno-collapse-* programs (cargo install inferno), RUNS how often each
# runs, in turn; figures are the best of the runs: others on the machine can only make them worse. What
# takes longer than 5 s runs three times at most. CPUS binds all of it to these CPUs (as taskset -c does;
# default 0, so that CPU time is that of one core). MB is the size of each input but DTrace's. Inputs are
# held in memory (/dev/shm, or TMPDIR): no disk is measured. All of it takes about five minutes.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
runs=${RUNS:-5}
mb=${MB:-50}
pyrograph=${PYROGRAPH:-$top/target/release/pyrograph}
inferno=${INFERNO:-$(dirname "$(command -v inferno-collapse-dtrace || echo /nowhere/x)")}

[ -n "${PYROGRAPH:-}" ] || cargo build --quiet --release -p pyrograph
if [ -z "${TMPDIR:-}" ] && [ -d /dev/shm ]; then export TMPDIR=/dev/shm; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compare() { # TITLE INPUT PEER [OPTION OF FOLD]: the peer is a collapser of inferno's or pprof
    echo
    echo "$1: $(($(wc -c < "$2") / 1000000)) MB"
    echo
    echo "| program                | CPU s   | wall s  | MB/CPU s  | RSS MiB  | ratio |"
    echo "|------------------------|---------|---------|-----------|----------|-------|"
    case $3 in
    pprof) peer="go tool pprof -raw=$(command -v go || echo /nowhere/go) tool pprof -raw {}" ;;
    *) peer="inferno-collapse-$3=$inferno/inferno-collapse-$3 {}" ;;
    esac
    set -- "$2" "pyrograph=$pyrograph fold ${4:-} {}" "$peer"
    python3 - "$runs" "${CPUS:-0}" "$@" <<'PYTHON'
import os, shlex, subprocess, sys, time
runs, cpus, path, *commands = sys.argv[1:]
commands = [command.split("=", 1) for command in commands]
commands = [(name, shlex.split(command)) for name, command in commands]
commands = [(name, words) for name, words in commands if os.access(words[0], os.X_OK)]
os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
size = os.path.getsize(path) / 1e6
best, slow = {}, set()
for turn in range(int(runs)):
    for name, words in commands:
        if turn >= 3 and name in slow:
            continue
        words = [path if word == "{}" else word for word in words]
        start = time.perf_counter()
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        if status:
            sys.exit(f"{name} failed: {words}")
        run = (used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss)
        best[name] = tuple(map(min, best.get(name, run), run))
        if run[1] > 5:
            slow.add(name)
ours = best["pyrograph"][0]
for name, (cpu, wall, memory) in best.items():
    print(f"| {name:<22} | {cpu:7.3f} | {wall:7.3f} | {size / cpu:9.0f} | {memory / 1024:8.0f} | {cpu / ours:5.1f} |")
PYTHON
}

if [ $# -gt 0 ]; then
    for input in "$@"; do compare "$input" "$input" dtrace; done
    exit
fi

# The same profile printed again and again, as by `tick-10s { printa(@); trunc(@); }`.
python3 "$top/benches/dtrace-input.py" 4000 2 > "$work/once"
for _ in $(seq 100); do cat "$work/once"; done > "$work/repeated"
compare "DTrace, repeated" "$work/repeated" dtrace
rm "$work/repeated"

python3 "$top/benches/dtrace-input.py" 300000 1 > "$work/distinct"
compare "DTrace, many distinct stacks" "$work/distinct" dtrace
rm "$work"/*

for format in sample vtune vsprof xctrace ghcprof pprof; do
    python3 "$top/benches/formats-input.py" $format "$mb" 1 > "$work/input"
    compare "$format" "$work/input" $format
done
python3 "$top/benches/formats-input.py" recursive "$mb" 1 > "$work/input"
compare "folded, recursion to be taken out" "$work/input" recursive --fold-recursion
