//! Text of `strace`: no panic, and calls by thread add up to those that are handed over one by one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_format::{Input, Options, READERS, thread_events};
use pyrograph_profile::ThreadAction;

fuzz_target!(|bytes: &[u8]| {
    let mut calls = 0_u64;
    let found = thread_events(Input::bytes("x", bytes), &mut |event| {
        calls += u64::from(matches!(event.action, ThreadAction::Call(_)));
    });
    let reader = READERS.iter().find(|reader| reader.name() == "strace").expect("the reader");
    let head = Input::bytes("x", bytes).begin().expect("bytes in memory");
    let is_it = reader.detect(head.bytes());
    let Ok(reading) = reader.read(head, &Options::default()) else { return };
    reading.profile.check().expect("a valid profile");
    let column = reading.profile.value_types.iter().position(|of| of.name == "calls");
    let counted: u64 = column.map_or(0, |column| reading.profile.samples.values(column).iter().sum());
    // With stacks, calls without one are left out.
    if is_it && found.is_ok() && !bytes.windows(3).any(|part| part == b" > ") {
        assert_eq!(counted, calls);
    }
});
