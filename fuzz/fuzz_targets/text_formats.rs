//! Every reader: the first byte chooses which. No panic, and what was read can be drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_format::{Input, Options, READERS, write_folded};
use pyrograph_profile::{LabelOptions, Tree};

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, text)) = bytes.split_first() else { return };
    // As many as `fuzz/run` has seeds for.
    assert!(READERS.len() <= 80, "{} readers", READERS.len());
    let reader = READERS[usize::from(choice) % READERS.len()];
    let Ok(head) = Input::bytes("x", text).begin() else { return };
    reader.detect(head.bytes());
    let Ok(mut reading) = reader.read(head, &Options::default()) else { return };
    reading.profile.check().expect("a valid profile");
    reading.profile.recognize_markers();
    reading.profile.check().expect("a valid profile");
    let tree = Tree::new(&reading.profile, &LabelOptions::default());
    write_folded(&tree, &mut std::io::sink()).expect("writing to nowhere");
});
