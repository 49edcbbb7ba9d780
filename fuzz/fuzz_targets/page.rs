//! The columns in a page of `pyrograph view`: no panic, whatever they are.
#![no_main]

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use pyrograph_format::{Detail, Input, Options, READERS, ThreadDetail};

fuzz_target!(|columns: &[u8]| {
    let reader = READERS.iter().find(|reader| reader.name() == "page").expect("the reader");
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zip.write_all(b"pyrograph\0\x01").expect("memory");
    zip.write_all(columns).expect("memory");
    let packed = STANDARD.encode(zip.finish().expect("memory"));
    let page = format!("<script type=\"text/plain\" id=\"pyrograph-profile\">\n{packed}\n</script>");
    for (detail, threads) in
        [(Detail::Samples, ThreadDetail::Thread), (Detail::Totals, ThreadDetail::Name)]
    {
        let input = Input::bytes("x", page.as_bytes()).begin().expect("bytes in memory");
        let options = Options { detail, threads, ..Options::default() };
        if let Ok(reading) = reader.read(input, &options) {
            reading.profile.check().expect("a valid profile");
        }
    }
});
