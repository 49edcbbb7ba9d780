#!/usr/bin/env bash
# Times `pyrograph diff` over two made-up profiles of N stacks each: benches/diff.sh [N]. The best of
# 5 runs. Needs a release build and Python.
set -euo pipefail
cd "$(dirname "$0")"
pyrograph=../target/release/pyrograph
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
./flamegraph-stacks.py "${1:-200000}" >"$work/before.folded"
# The same program, sampled again: counts with Poisson noise.
python3 - "$work/before.folded" >"$work/after.folded" <<'PYTHON'
import random
import sys

rng = random.Random(4)
for line in open(sys.argv[1]):
    stack, count = line.rsplit(" ", 1)
    again = max(0, round(rng.gauss(int(count), int(count) ** 0.5)))
    if again:
        print(stack, again)
PYTHON
for form in text svg folded; do
    best=$(for _ in 1 2 3 4 5; do
        /usr/bin/env time -f '%U %S %e %M' "$pyrograph" diff "$work"/{before,after}.folded \
            -o "$work/out.${form/text/txt}" 2>&1
    done | sort -n | head -1)
    read -r user system wall memory <<<"$best"
    echo "$form: ${user} s user, ${system} s system, ${wall} s wall, $((memory / 1024)) MiB," \
        "$(stat -c %s "$work/out.${form/text/txt}") bytes"
done
