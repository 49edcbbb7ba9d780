//! Inputs of one long line, which each detector gets.

use pyrograph_format::{READERS, Reader, detect};

/// A detector whose time grew with the square of the line's length took minutes for a fifth of that, too.
fn length() -> usize {
    if std::env::var_os("PYROGRAPH_NIGHTLY").is_some() { 10_000_000 } else { 2_000_000 }
}

fn check(piece: &str, expect: Option<&str>) {
    let line = piece.repeat(length() / piece.len());
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
