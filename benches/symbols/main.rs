//! Looks up addresses of a program, with one of two symbolizers; `run` compares them.
//!
//! `symbols ours|blazesym COUNT FILE` writes a line for each address: the address and the functions
//! there, innermost first.

use std::fs::File;
use std::io::Write;

use blazesym::symbolize::source::{Elf, Source as ElfSource};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use pyrograph_symbol::{Module, Options, Source};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, who, count, path] = &arguments[..] else {
        return Err("symbols ours|blazesym COUNT FILE".into());
    };
    let module = Module::open(&File::open(path)?, Source { path, ..Source::default() })?;
    let addresses = addresses(&module, count.parse()?);
    let names = match who.as_str() {
        "ours" => ours(&module, &addresses),
        "blazesym" => theirs(path, &addresses)?,
        _ => return Err("ours or blazesym".into()),
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (address, names) in addresses.iter().zip(names) {
        writeln!(out, "{address:x} {}", names.join(" | "))?;
    }
    Ok(())
}

/// Addresses of code, the same in each run, sorted.
fn addresses(module: &Module, count: usize) -> Vec<u64> {
    let code: Vec<_> = module.segments().iter().filter(|segment| segment.executable).collect();
    let size: u64 = code.iter().map(|segment| segment.file_size).sum();
    let mut state = 1u64;
    let mut addresses: Vec<u64> = (0..count)
        .filter_map(|_| {
            // Knuth's constants for a linear congruential generator.
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let mut at = (state >> 16) % size.max(1);
            let segment = code.iter().find(|segment| {
                let here = at < segment.file_size;
                at -= if here { 0 } else { segment.file_size };
                here
            })?;
            module.file_offset_to_address(segment.file_offset + at)
        })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn ours(module: &Module, addresses: &[u64]) -> Vec<Vec<String>> {
    let found = module.symbolize(addresses, &Options::default());
    let names = found.addresses.iter();
    names.map(|found| found.frames.iter().map(|frame| frame.function.to_string()).collect()).collect()
}

fn theirs(path: &str, addresses: &[u64]) -> Result<Vec<Vec<String>>, Failure> {
    let symbolizer = Symbolizer::builder().enable_inlined_fns(true).enable_code_info(true).build();
    let source = ElfSource::Elf(Elf::new(path));
    let found = symbolizer.symbolize(&source, Input::VirtOffset(addresses))?;
    let names = found.iter().map(|found| match found {
        Symbolized::Sym(symbol) => {
            // They have the innermost last.
            let inlined = symbol.inlined.iter().rev().map(|inlined| inlined.name.to_string());
            inlined.chain([symbol.name.to_string()]).collect()
        }
        Symbolized::Unknown(_) => Vec::new(),
    });
    Ok(names.collect())
}
