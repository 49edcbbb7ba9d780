//! Folded text: no panic, and what was written is read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrograph_format::{Input, Options, READERS, Reading, write_folded};
use pyrograph_profile::{LabelOptions, Profile, Tree};

fn read(text: &[u8]) -> Reading {
    let reader = READERS.iter().find(|reader| reader.name() == "folded").expect("the reader");
    let input = Input::bytes("x", text).begin().expect("bytes in memory");
    let reading = reader.read(input, &Options::default()).expect("any bytes are read somehow");
    reading.profile.check().expect("a valid profile");
    reading
}

fn folded(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    write_folded(&Tree::new(profile, &LabelOptions::default()), &mut out).expect("to memory");
    out
}

fuzz_target!(|text: &[u8]| {
    if text.starts_with(&[0x1f, 0x8b]) || text.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return;
    }
    let once = read(text).profile;
    let written = folded(&once);
    let again = read(&written);
    // The writer replaces these: by blanks, which are none of a name at its end, or by a character that sorts elsewhere.
    let replaced = String::from_utf8_lossy(text).chars().any(|c| c.is_control() && c != '\n');
    // Lines whose counts are 0 are not written, and those left may then all have two counts; and
    // what was in the middle may come first, and be taken for a remark or a byte order mark.
    let remark = written.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"#"));
    let mark = written.starts_with("\u{feff}".as_bytes());
    let as_before = again.profile.value_types.len() == once.value_types.len();
    if as_before && again.warnings.is_empty() && !remark && !mark && !replaced {
        assert_eq!(folded(&again.profile), written);
    }
});
