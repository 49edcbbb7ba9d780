#!/bin/sh
# Events one by one as text: `pyrograph script` beside `perf script`, by turns, on the same files, into /dev/null.
# Records its own files: a Rust program with debug information by frame pointers and by copied stacks, and tracepoints of the
# machine. `benches/script.sh FILE...` measures files of yours.
#
# Figures are the best of RUNS (default 3), in seconds of CPU time. That of addr2line, which perf 6.1 starts for inlined calls and
# does not wait for, is counted: the script adopts and awaits it. MOST is the longest that a run of perf may take (default 300 s).
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
export RUNS="${RUNS:-3}" MOST="${MOST:-300}"
export PYROGRAPH="${PYROGRAPH:-$top/target/release/pyrograph}"
[ -x "$PYROGRAPH" ] || cargo build --quiet --release -p pyrograph
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

compare() {
    python3 - "$@" <<'EOF'
import ctypes, os, resource, subprocess, sys

ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
runs, most = int(os.environ["RUNS"]), float(os.environ["MOST"])

def cpu(command):
    """Seconds of CPU time of a command and of all that it leaves behind; None if it takes too long."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        child.wait(most)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    late = child.returncode != 0
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, late

name, file = sys.argv[1:3]
kinds = [("usual fields", []), ("without inlined calls", ["--no-inline"]),
         ("-F comm,pid,tid,time,event", ["-F", "comm,pid,tid,time,event"])]
print(f"{name}: {os.path.getsize(file) / 1e6:.0f} MB")
for kind, options in kinds:
    best = {}
    for _ in range(runs):
        for tool in (["perf", "script", "-i"], [os.environ["PYROGRAPH"], "script", "-i"]):
            spent, late = cpu(tool[:2] + options + tool[2:] + [file])
            key = tool[0]
            known = best.get(key, (spent, late))
            best[key] = min(known, (spent, late))
    (theirs, late), (ours, wrong) = best["perf"], best[os.environ["PYROGRAPH"]]
    more = "more than " if late else ""
    print(f"  {kind}: perf {more}{theirs:.2f} s, pyrograph {ours:.2f} s{' (failed)' if wrong else ''}, "
          f"{theirs / ours:.1f} times")
EOF
}

if [ $# -gt 0 ]; then
    for input in "$@"; do compare "$input" "$input"; done
    exit
fi
rustc -O -g --edition 2024 -o "$WORK/work" "$top/benches/perf-data/work.rs"
rustc -O -g --edition 2024 -C force-frame-pointers=yes -o "$WORK/work-fp" "$top/benches/perf-data/work.rs"
record() { perf record -q -m 2048 "$@" > "$WORK/log" 2>&1 || cat "$WORK/log"; }
record -e cpu-clock -F 20000 -g -o "$WORK/fp.data" "$WORK/work-fp" "${SECONDS_FP:-10}" 5 2
compare "Frame pointers" "$WORK/fp.data"
record -e cpu-clock -F 2000 --call-graph dwarf -o "$WORK/dwarf.data" "$WORK/work" "${SECONDS_DWARF:-5}"
compare "Copied stacks" "$WORK/dwarf.data"
record -a -e 'sched:*' -e 'kmem:*' -o "$WORK/trace.data" "$WORK/work" "${SECONDS_TRACE:-3}"
compare "Tracepoints" "$WORK/trace.data"
