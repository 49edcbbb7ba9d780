//! `perf.data`: no panic, and the same for any number of threads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_format::{Detail, Input, Locator, Options, READERS, SymbolOptions, write_folded};
use pyrograph_format::{EventInput, describe, events};
use pyrograph_profile::{EventFilter, LabelOptions, Tree};

fn folded(bytes: &[u8], options: &Options) -> Option<Vec<u8>> {
    let reader = READERS.iter().find(|reader| reader.name() == "perf.data").expect("the reader");
    let input = Input::bytes("x", bytes).begin().expect("bytes in memory");
    let mut reading = reader.read(input, options).ok()?;
    reading.profile.check().expect("a valid profile");
    // Single samples have their number beside the value.
    reading.profile.keep_shown();
    let mut out = Vec::new();
    write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut out)
        .expect("to memory");
    Some(out)
}

/// Each event has places that are there.
fn single_events(bytes: &[u8], options: &Options) {
    let Ok(input) = EventInput::open(Input::bytes("x", bytes), options) else { return };
    let chosen = input.choose(EventFilter::default(), &vec![true; input.kinds().len()]);
    let locations = chosen.locations();
    chosen.each(true, &mut |event| {
        assert!(event.kind < input.kinds().len());
        for entry in event.stack {
            let location = &locations.list[entry.location as usize];
            assert!(!locations.frames_of(location).is_empty());
        }
        std::ops::ControlFlow::Continue(())
    });
}

fuzz_target!(|bytes: &[u8]| {
    // Nothing but the fuzzer's own bytes is to be read.
    let locator = Locator {
        debug_dirs: Vec::new(),
        symfs: Some("/nonexistent".into()),
        build_id_cache: None,
        debuginfod: None,
    };
    let symbols = SymbolOptions { locator, ..SymbolOptions::default() };
    let one = Options { workers: 1, symbols, ..Options::default() };
    let two = Options { workers: 2, ..one.clone() };
    let samples = Options { detail: Detail::Samples, ..two.clone() };
    let totals = folded(bytes, &one);
    assert_eq!(totals, folded(bytes, &two));
    assert_eq!(totals, folded(bytes, &samples));
    let _ = describe(Input::bytes("x", bytes));
    single_events(bytes, &one);
    let head = Input::bytes("x", bytes).begin().expect("bytes in memory");
    let mut last = 0;
    let _ = events(head, &mut |event| {
        assert!(event.time.is_none_or(|time| time >= last), "the order is that of time");
        last = event.time.unwrap_or(last);
        let _ = event.fields.iter().map(|field| field.value.to_string()).collect::<Vec<_>>();
    });
});
