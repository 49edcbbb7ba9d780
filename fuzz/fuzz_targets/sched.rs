//! Events of the scheduler, of `perf.data` and of text: no panic in any view, and rows add up.
#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use pyrograph_analyze::{
    LatencyBy, LatencySort, SchedFilter, SchedLatency, SchedMap, Timehist, sched_latency_table,
};
use pyrograph_format::{Input, Locator, Options, SchedInput, SymbolOptions};

fuzz_target!(|bytes: &[u8]| {
    // Nothing but the fuzzer's own bytes is to be read.
    let locator = Locator {
        debug_dirs: Vec::new(),
        symfs: Some("/nonexistent".into()),
        build_id_cache: None,
        debuginfod: None,
    };
    let symbols = SymbolOptions { locator, ..SymbolOptions::default() };
    let options = Options { workers: 1, symbols, ..Options::default() };
    let Ok(input) = SchedInput::open(Input::bytes("x", bytes)) else { return };
    let filter = SchedFilter::default();
    let (mut latency, mut history) = (SchedLatency::new(true), Timehist::default());
    let mut map = SchedMap::default();
    let read = input.each(true, &options, &mut |tasks, event| {
        latency.push(tasks, &filter, &event);
        history.push(tasks, &filter, &event);
        map.push(tasks, &filter, &event);
        ControlFlow::Continue(())
    });
    let Ok((tasks, _)) = read else { return };
    latency.finish(&tasks, &filter);
    let counts = latency.counts(&tasks);
    let table = sched_latency_table(&counts, LatencyBy::Cpu, &[LatencySort::Average]);
    let sum = table.rows.iter().map(|row| row.delays.count).sum::<u64>();
    assert_eq!(table.total.delays.count, sum);
});
