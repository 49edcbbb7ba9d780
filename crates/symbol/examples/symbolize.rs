//! Prints functions, files and lines of addresses, as `addr2line -a -f -i -C` does, so that the
//! two can be compared:
//!
//! ```text
//! cargo run --release -p pyrograph-symbol --example symbolize FILE < ADDRESSES
//! ```
//!
//! Addresses are hexadecimal, one a line. Warnings and the time taken go to standard error.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Read, Write, stdin, stdout};
use std::time::Instant;

use pyrograph_symbol::{Module, Options, Source};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: symbolize FILE < ADDRESSES")?;
    let mut text = String::new();
    stdin().read_to_string(&mut text)?;
    let addresses = text
        .split_whitespace()
        .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16))
        .collect::<Result<Vec<_>, _>>()?;

    let begin = Instant::now();
    let module = Module::open(&File::open(&path)?, Source { path: &path, ..Source::default() })?;
    let result = module.symbolize(&addresses, &Options::default());
    eprintln!("{} addresses in {:.1} ms", addresses.len(), begin.elapsed().as_secs_f64() * 1e3);
    for warning in &result.warnings {
        eprintln!("{warning}");
    }

    let mut out = BufWriter::new(stdout().lock());
    for (address, symbolized) in addresses.iter().zip(&result.addresses) {
        writeln!(out, "{address:#018x}")?;
        if symbolized.frames.is_empty() {
            writeln!(out, "??\n??:0")?;
        }
        for frame in &*symbolized.frames {
            let file = frame.file.as_deref().unwrap_or("??");
            writeln!(out, "{}\n{file}:{}", frame.function, frame.line)?;
        }
    }
    out.flush()?;
    Ok(())
}
