//! `perf script` text: no panic, and the same whatever the options keep.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_format::{Count, Detail, Input, Options, READERS, Reading, ThreadDetail};
use pyrograph_format::{events, write_folded};
use pyrograph_profile::{LabelOptions, Profile, Tree};

fn read(text: &[u8], options: &Options) -> Reading {
    let reader = READERS.iter().find(|reader| reader.name() == "perf script").expect("the reader");
    let input = Input::bytes("x", text).begin().expect("bytes in memory");
    let reading = reader.read(input, options).expect("any bytes are read somehow");
    reading.profile.check().expect("a valid profile");
    reading
}

fn folded(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    write_folded(&Tree::new(profile, &LabelOptions::default()), &mut out).expect("to memory");
    out
}

fuzz_target!(|text: &[u8]| {
    // Compressed input has a target of its own.
    if text.starts_with(&[0x1f, 0x8b]) || text.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return;
    }
    let totals = read(text, &Options::default());
    let folded_totals = folded(&totals.profile);
    // Stacks are sorted by their names, in which the writer replaces these.
    let replaced =
        String::from_utf8_lossy(text).chars().any(|c| c.is_control() && !"\n\t".contains(c));
    let lines = folded_totals.split(|&byte| byte == b'\n');
    assert!(replaced || lines.is_sorted_by(|a, b| a <= b || b.is_empty()));
    let mut samples = read(text, &Options { detail: Detail::Samples, ..Options::default() });
    // Their number stands beside the value.
    samples.profile.keep_shown();
    assert_eq!(folded(&samples.profile), folded_totals);
    assert_eq!(samples.warnings, totals.warnings);
    let options = Options {
        threads: ThreadDetail::Thread,
        count: Count::Samples,
        unknown_addresses: true,
        addresses: true,
        ..Options::default()
    };
    read(text, &options);
    let head = Input::bytes("x", text).begin().expect("bytes in memory");
    let _ = events(head, &mut |event| {
        let _ = event.fields.iter().map(|field| field.value.to_string()).collect::<Vec<_>>();
    });
});
