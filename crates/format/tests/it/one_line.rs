//! Inputs of one long line, which each detector gets.

use pyrograph_format::{READERS, Reader, detect};

const LENGTH: usize = 10_000_000;

/// A detector whose time grew with the square of the line's length took minutes for these.
fn check(piece: &str, expect: Option<&str>) {
    let line = piece.repeat(LENGTH / piece.len());
    assert_eq!(detect(line.as_bytes()).map(Reader::name), expect, "{piece}");
    for reader in READERS {
        reader.detect(line.as_bytes());
    }
}

#[test]
fn json_of_no_known_format() {
    check("\"k\": [1, 2], ", None);
}

#[test]
fn brackets_that_could_be_cpus() {
    check("a [1] ", Some("perf script"));
}
