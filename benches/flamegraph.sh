#!/bin/sh
# Folded stacks to SVG: pyrograph and, where it is installed, inferno-flamegraph, side by side.
# Makes its own input and fetches nothing. `benches/flamegraph.sh [STACKS...]`: numbers of distinct
# stacks, by default 72,000, 200,000 and 1,000,000.
#
# INFERNO is the path of inferno-flamegraph (cargo install inferno), RUNS how often each runs.
# Figures are the best of the runs: others on the machine can only make them worse.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
runs=${RUNS:-7}
pyrograph=${PYROGRAPH:-$top/target/release/pyrograph}
inferno=${INFERNO:-$(command -v inferno-flamegraph || true)}
[ $# -gt 0 ] || set -- 72000 200000 1000000

[ -n "${PYROGRAPH:-}" ] || cargo build --quiet --release -p pyrograph
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

measure() { # NAME COMMAND...: CPU, wall and memory of the best run, and the size of what it wrote
    python3 - "$runs" "$work/out.svg" "$@" <<'EOF'
import os, resource, subprocess, sys, time
runs, out, name, *command = sys.argv[1:]
best = None
for _ in range(int(runs)):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with open(out, "wb") as file:
        child = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{name} failed: {command}")
    wall = time.perf_counter() - start
    cpu = used.ru_utime + used.ru_stime
    run = (cpu, wall, used.ru_maxrss)
    best = run if best is None else tuple(map(min, best, run))
cpu, wall, memory = best
print(f"| {name:<22} | {cpu:8.3f} | {wall:8.3f} | {memory / 1024:8.0f} | {os.path.getsize(out) / 1e6:8.2f} |")
EOF
}

for stacks in "$@"; do
    input="$work/$stacks.folded"
    python3 "$top/benches/flamegraph-stacks.py" "$stacks" > "$input"
    echo
    echo "$stacks distinct stacks, $(($(wc -c < "$input") / 1000000)) MB"
    echo
    echo "| program                | CPU s    | wall s   | RSS MiB  | SVG MB   |"
    echo "|------------------------|----------|----------|----------|----------|"
    measure pyrograph "$pyrograph" flamegraph "$input"
    [ -z "$inferno" ] || measure inferno-flamegraph "$inferno" --quiet "$input"
    rm -f "$input"
done
