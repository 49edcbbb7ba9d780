#!/bin/sh
# How much CPU time Chromium takes to open the chart of a million switches, to show a span that is selected in it, and to zoom:
#
#   benches/sched-chart.sh [SWITCHES]
#
# The machine whose chart it is is simulated: crates/render/examples/sched-chart.rs. Needs what tests/browser/run needs.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --quiet --release -p pyrograph-render --example sched-chart
"${CARGO_TARGET_DIR:-target}/release/examples/sched-chart" "${1:-1000000}" "$work/chart.html"
tests/browser/run measure-chart "$work/chart.html"
