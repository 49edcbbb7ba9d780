#!/bin/sh
# `pyrograph diff` over two made-up profiles of the same program, sampled twice, and, where they are
# installed, inferno-diff-folded, inferno-flamegraph and difffolded.pl, side by side. Makes its own
# input and fetches nothing. `benches/diff.sh [STACKS...]`: numbers of distinct stacks, by default
# 72,000 and 200,000.
#
# INFERNO_DIFF and INFERNO are the paths of inferno-diff-folded and inferno-flamegraph (cargo install
# inferno), DIFFFOLDED that of difffolded.pl, RUNS how often each runs. Figures are the best of the
# runs: others on the machine can only make them worse.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
runs=${RUNS:-7}
pyrograph=${PYROGRAPH:-$top/target/release/pyrograph}
columns=${INFERNO_DIFF:-$(command -v inferno-diff-folded || true)}
inferno=${INFERNO:-$(command -v inferno-flamegraph || true)}
script=${DIFFFOLDED:-$(command -v difffolded.pl || true)}
[ $# -gt 0 ] || set -- 72000 200000

[ -n "${PYROGRAPH:-}" ] || cargo build --quiet --release -p pyrograph
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

measure() { # NAME SHELL-COMMAND, whose programs run one after the other: their CPU together, the
    # largest one's memory
    python3 - "$runs" "$work/out" "$@" <<'EOF'
import os, subprocess, sys, time
runs, out, name, command = sys.argv[1:]
best = None
for _ in range(int(runs)):
    with open(out, "wb") as file:
        start = time.perf_counter()
        child = subprocess.Popen(["sh", "-c", command], stdout=file, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{name} failed: {command}")
    run = (used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss)
    best = run if best is None else tuple(map(min, best, run))
cpu, wall, memory = best
print(f"| {name:<41} | {cpu:8.3f} | {wall:8.3f} | {memory / 1024:8.0f} | {os.path.getsize(out) / 1e6:8.2f} |")
EOF
}

for stacks in "$@"; do
    before="$work/before.folded"
    after="$work/after.folded"
    python3 "$top/benches/flamegraph-stacks.py" "$stacks" > "$before"
    # The same program, sampled again: counts with Poisson noise.
    python3 - "$before" > "$after" <<'EOF'
import random, sys
rng = random.Random(4)
for line in open(sys.argv[1]):
    stack, count = line.rsplit(" ", 1)
    again = max(0, round(rng.gauss(int(count), int(count) ** 0.5)))
    if again:
        print(stack, again)
EOF
    echo
    echo "$stacks distinct stacks before and after, $(($(cat "$before" "$after" | wc -c) / 1000000)) MB"
    echo
    echo "| what                                      | CPU s    | wall s   | RSS MiB  | out MB   |"
    echo "|-------------------------------------------|----------|----------|----------|----------|"
    measure "two columns: pyrograph diff --folded" "$pyrograph diff --folded $before $after"
    [ -z "$columns" ] || measure "two columns: inferno-diff-folded" "$columns $before $after"
    [ -z "$script" ] || measure "two columns: difffolded.pl" "perl $script $before $after"
    measure "picture: pyrograph diff --svg" "$pyrograph diff --svg $before $after"
    [ -z "$columns" ] || [ -z "$inferno" ] || measure "picture: inferno-diff-folded, -flamegraph" \
        "$columns $before $after > $work/two && $inferno --quiet $work/two"
    measure "table: pyrograph diff" "$pyrograph diff $before $after"
    rm -f "$before" "$after" "$work/two"
done
