//! Demangles names, one a line, as `c++filt --no-params` does, so that the two can be compared.

use std::error::Error;
use std::io::{BufRead, BufWriter, Write, stdin, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        writeln!(out, "{}", pyrograph_symbol::demangle(&line?))?;
    }
    out.flush()?;
    Ok(())
}
