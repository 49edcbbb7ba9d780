//! Profiles of pprof (`profile.proto`), written by hand: samples at known addresses of one mapping.

use std::path::Path;

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn count(out: &mut Vec<u8>, field: u64, value: u64) {
    number(out, field << 3);
    number(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    number(out, field << 3 | 2);
    number(out, value.len() as u64);
    out.extend(value);
}

fn message(fields: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(field, value) in fields {
        count(&mut out, field, value);
    }
    out
}

/// The mapping of all samples.
pub struct Mapping<'a> {
    pub start: u64,
    pub limit: u64,
    pub offset: u64,
    pub file: &'a str,
    pub build_id: &'a str,
}

/// Writes a profile. `samples`: function, address, samples there.
pub fn write(path: &Path, of: &Mapping<'_>, samples: &[(&str, u64, u64)]) {
    let mut strings = vec!["", "samples", "count", of.file, of.build_id];
    let mut profile = Vec::new();
    bytes(&mut profile, 1, &message(&[(1, 1), (2, 2)]));
    let mapping =
        message(&[(1, 1), (2, of.start), (3, of.limit), (4, of.offset), (5, 3), (6, 4), (7, 1)]);
    bytes(&mut profile, 3, &mapping);
    for (id, &(function, address, value)) in (1u64..).zip(samples) {
        bytes(&mut profile, 2, &message(&[(1, id), (2, value)]));
        let mut location = message(&[(1, id), (2, 1), (3, address)]);
        bytes(&mut location, 4, &message(&[(1, id)]));
        bytes(&mut profile, 4, &location);
        bytes(&mut profile, 5, &message(&[(1, id), (2, strings.len() as u64)]));
        strings.push(function);
    }
    for text in strings {
        bytes(&mut profile, 6, text.as_bytes());
    }
    std::fs::write(path, profile).expect("it is writable");
}
