#!/bin/sh
# perf.data to folded stacks: pyrograph beside what perf and inferno do with the same file. Records
# its own files (a Rust program with debug information, by frame pointers and by copied stacks, and
# the whole machine) and fetches nothing. `benches/perf-data.sh FILE...` measures files of yours.
#
# INFERNO is the path of inferno-collapse-perf (cargo install inferno), SAMPLY that of samply; what
# is not there is left out. RUNS is how often each runs, in turn (default 3); figures are the best of
# the runs. SECONDS_FP and SECONDS_DWARF are how long to record (default 48 and 18, for some 160 MB
# and 1 GB). CPU time has that of all children; memory is the largest of a process, and has in it
# the pages of the mapped file; "beyond" is what it has that is in no file.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
runs=${RUNS:-3}
pyrograph=${PYROGRAPH:-$top/target/release/pyrograph}
inferno=${INFERNO:-$(command -v inferno-collapse-perf || true)}
samply=${SAMPLY:-$(command -v samply || true)}

[ -n "${PYROGRAPH:-}" ] || cargo build --quiet --release -p pyrograph
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compare() { # TITLE FILE
    echo
    echo "$1: $(($(wc -c < "$2") / 1000000)) MB"
    echo
    python3 - "$runs" "$2" "$pyrograph" "$inferno" "$samply" "$work" <<'EOF'
import os, subprocess, sys, time
runs, path, pyrograph, inferno, samply, work = sys.argv[1:]
paths = [("pyrograph", f"{pyrograph} fold '{path}'", None),
         ("pyrograph, one CPU", f"{pyrograph} fold '{path}'", {0}),
         ("pyrograph --no-inline", f"{pyrograph} fold --no-inline '{path}'", None)]
if inferno:
    paths.append(("perf script --no-inline, inferno",
                  f"perf script --no-inline -i '{path}' | {inferno} --quiet", None))
paths.append(("perf report, folded, no inlined calls",
              f"perf report -i '{path}' --no-inline --stdio --no-children -n "
              "-g folded,0,caller,count -s comm", None))
if samply:
    paths.append(("samply", f"{samply} import --presymbolicate --save-only "
                  f"-o {work}/samply.json '{path}'", None))

def anonymous(pid):
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0

best = {}
for _ in range(int(runs)):
    for name, command, cpus in paths:
        bind = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
        single = "|" not in command
        start = time.perf_counter()
        child = subprocess.Popen(["sh", "-c", ("exec " if single else "") + command],
                                 preexec_fn=bind, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        beyond = 0
        while single:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            beyond = max(beyond, anonymous(child.pid))
            time.sleep(0.002)
        else:
            _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        if status:
            sys.exit(f"{name} failed: {command}")
        run = (used.ru_utime + used.ru_stime, wall, used.ru_maxrss, beyond)
        best[name] = tuple(map(min, best.get(name, run), run))
print("| path                                   | CPU s   | wall s  | RSS MiB | beyond |")
print("|----------------------------------------|---------|---------|---------|--------|")
for name, (cpu, wall, memory, beyond) in best.items():
    beyond = f"{beyond / 1024:6.0f}" if beyond else "      "
    print(f"| {name:<38} | {cpu:7.2f} | {wall:7.2f} | {memory / 1024:7.0f} | {beyond} |")
EOF
}

if [ $# -gt 0 ]; then
    for input in "$@"; do compare "$input" "$input"; done
    exit
fi

rustc -O -g --edition 2024 -o "$work/work" "$top/benches/perf-data/work.rs"
rustc -O -g --edition 2024 -C force-frame-pointers=yes -o "$work/work-fp" \
    "$top/benches/perf-data/work.rs"
record() { perf record -q -m 2048 -e cpu-clock "$@" > "$work/log" 2>&1 || cat "$work/log"; }
record -F 25000 -g -o "$work/fp.data" "$work/work-fp" "${SECONDS_FP:-48}"
compare "frame pointers" "$work/fp.data"
rm "$work/fp.data"
record -F 20000 --call-graph dwarf -o "$work/dwarf.data" "$work/work" "${SECONDS_DWARF:-18}"
compare "copied stacks" "$work/dwarf.data"
rm "$work/dwarf.data"
record -F 4999 -a -g -o "$work/all.data" "$work/work-fp" 10
compare "the whole machine" "$work/all.data"
