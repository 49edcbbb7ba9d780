//! Numbers over time, the first byte choosing the unit: no panic, as many times as values, all finite.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_format::{Input, TimeUnit, read_points};

const UNITS: [TimeUnit; 4] =
    [TimeUnit::Seconds, TimeUnit::Milliseconds, TimeUnit::Microseconds, TimeUnit::Nanoseconds];

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, text)) = bytes.split_first() else { return };
    let Ok(head) = Input::bytes("x", text).begin() else { return };
    let Ok((points, _)) = read_points([head], UNITS[usize::from(choice) % 4]) else { return };
    assert_eq!(points.times.len(), points.values.len());
    assert!(points.times.iter().chain(&points.values).all(|number| number.is_finite()));
});
