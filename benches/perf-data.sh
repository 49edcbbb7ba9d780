#!/bin/sh
# perf.data to folded stacks: pyrograph beside what perf, inferno and samply do with the same file.
# Records its own files (a Rust program with debug information, by frame pointers and by copied
# stacks, and the whole machine, once while compilers run) and fetches nothing. `benches/perf-data.sh FILE...` measures files
# of yours.
#
# INFERNO is the path of inferno-collapse-perf (cargo install inferno), SAMPLY that of samply, whose
# release 0.13.1 cannot be compared: it does not symbolize at import. What is not there is left out,
# which is said. RUNS is how often each runs, in turn (default 3); figures are the best of the runs.
# How much faster two CPUs are than one is the median of 4 times as many. SECONDS_FP, SECONDS_DWARF,
# SECONDS_ALL, SECONDS_COMPILE and SECONDS_COMPILE_DWARF are how long to record (default 13, 12, 10, 30 and 18).
#
# CPU time has that of all children that a program waits for: not that of the addr2line that perf 6.1
# asks for inlined calls. Memory is the largest of a process, and has in it the pages of
# the mapped file; "beyond" is what it has that is in no file.
#
# Where other work keeps the machine busy, run it as `chrt -r 10 benches/perf-data.sh`: it then gets
# the CPUs when it wants them, and wall times mean something.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
export RUNS="${RUNS:-3}"
export PYROGRAPH="${PYROGRAPH:-$top/target/release/pyrograph}"
export INFERNO="${INFERNO:-$(command -v inferno-collapse-perf || true)}"
export SAMPLY="${SAMPLY:-$(command -v samply || true)}"

[ -x "$PYROGRAPH" ] || cargo build --quiet --release -p pyrograph
WORK=$(mktemp -d)
export WORK
trap 'rm -rf "$WORK"' EXIT
compare() { python3 "$top/benches/perf-data/compare.py" "$@"; }

python3 "$top/benches/perf-data/compare.py"
if [ $# -gt 0 ]; then
    for input in "$@"; do compare "$input" "$input"; done
    exit
fi

rustc -O -g --edition 2024 -o "$WORK/work" "$top/benches/perf-data/work.rs"
rustc -O -g --edition 2024 -C force-frame-pointers=yes -o "$WORK/work-fp" \
    "$top/benches/perf-data/work.rs"
record() { perf record -q -m 2048 -e cpu-clock "$@" > "$WORK/log" 2>&1 || cat "$WORK/log"; }

record -F 49999 -g -o "$WORK/fp.data" "$WORK/work-fp" "${SECONDS_FP:-13}" 5 2
compare "Frame pointers" "$WORK/fp.data"
rm "$WORK/fp.data"
record -F 10000 --call-graph dwarf -o "$WORK/dwarf.data" "$WORK/work" "${SECONDS_DWARF:-12}"
compare "Copied stacks" "$WORK/dwarf.data" more
rm "$WORK/dwarf.data"
record -F 4999 -a -g -o "$WORK/all.data" "$WORK/work-fp" "${SECONDS_ALL:-10}"
compare "The whole machine" "$WORK/all.data"
rm "$WORK/all.data"

# Many short processes, most of them without frame pointers: hundreds of thousands of distinct stacks.
compile() {
    programs=$top/crates/cli/tests/programs
    while [ -e "$WORK/busy" ]; do
        g++ -O2 -g -o "$WORK/compiled$1" "$programs/inlined.cpp"
        for _ in 1 2 3 4 5; do gcc -O2 -c -o "$WORK/compiled$1" "$top/benches/slowdown.c"; done
        rustc -O --edition 2024 -o "$WORK/compiled$1" "$top/benches/perf-data/work.rs"
        find /usr/lib /usr/include -type f | sort | cksum > "$WORK/sum$1"
    done
}
touch "$WORK/busy"
compile 1 &
compile 2 &
record -F 20000 -a -g -o "$WORK/compile.data" sleep "${SECONDS_COMPILE:-30}"
record -F 2999 -a --call-graph dwarf -o "$WORK/compile-dwarf.data" \
    sleep "${SECONDS_COMPILE_DWARF:-18}"
rm "$WORK/busy"
wait
compare "The whole machine while compilers run" "$WORK/compile.data"
rm "$WORK/compile.data"
compare "The same with copied stacks" "$WORK/compile-dwarf.data"
