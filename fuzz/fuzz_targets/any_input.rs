//! Detection and decompression in front of every reader.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use pyrograph_format::{Input, detect};

/// A small input may decompress to terabytes; how much is read is up to the reader.
const ENOUGH: u64 = 16 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Ok(head) = Input::bytes("x", bytes).begin() else { return };
    detect(head.bytes());
    let _ = std::io::copy(&mut head.into_stream().take(ENOUGH), &mut std::io::sink());
});
