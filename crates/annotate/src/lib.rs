#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod choose;
mod code;
mod jit;
mod kernel;
mod lines;
mod sources;

use pyrograph_analyze::{AnnotatedInstruction, Annotation};
use pyrograph_disassemble::{Instruction, disassemble};
use pyrograph_profile::Profile;
use pyrograph_symbol::Options as SymbolOptions;
use thiserror::Error;

pub use crate::choose::{Function, functions};
pub use crate::sources::{Sources, SourceDir};
use crate::code::Code;

/// Where code and sources are looked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where modules and their debug files are.
    pub symbols: SymbolOptions,
    /// Where sources are.
    pub sources: Sources,
}

/// Why a function cannot be annotated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No sample has an address.
    #[error(
        "the input has no addresses of instructions: perf.data, pprof with mappings and the page of `record -o app.html` have them"
    )]
    NoAddresses,
    /// No sample is in a function of this name.
    #[error("no sample is in a function {name}{}", choose::similar_text(similar))]
    NoFunction {
        /// The name.
        name: String,
        /// Functions with a name like it, or with the most samples.
        similar: Vec<String>,
    },
    /// The code of the function is not to be had.
    #[error("{0}")]
    NoCode(String),
}

/// More are not shown of one function; the largest of the kernel and of interpreters have a tenth of it.
const MOST_INSTRUCTIONS: usize = 1 << 17;

/// The function of this name: its whole name; or, if none has it, its name without parameters, or the last part of its path.
/// Of several the one with the most samples is taken, which a note says.
///
/// # Errors
///
/// If there is no such function, or its code cannot be found.
pub fn annotate(profile: &Profile, name: &str, options: &Options) -> Result<Annotation, Error> {
    let (function, notes) = choose::choose(profile, name)?;
    annotate_function(profile, &function, notes, options)
}

/// A function that [`functions`] has listed.
///
/// # Errors
///
/// If its code cannot be found.
pub fn annotate_function(
    profile: &Profile,
    function: &Function,
    mut notes: Vec<String>,
    options: &Options,
) -> Result<Annotation, Error> {
    let name = profile.strings.get(function.name);
    let mut code = Code::find(function, name, &options.symbols, &mut notes)?;
    let mut decoded: Vec<Instruction> =
        disassemble(code.arch, &code.bytes, code.start).take(MOST_INSTRUCTIONS + 1).collect();
    if decoded.len() > MOST_INSTRUCTIONS {
        decoded.truncate(MOST_INSTRUCTIONS);
        notes.push(format!("only the first {MOST_INSTRUCTIONS} instructions are shown"));
    }
    let columns = profile.value_types.len();
    let mut instructions: Vec<AnnotatedInstruction> = decoded
        .iter()
        .map(|of| AnnotatedInstruction {
            address: of.address,
            text: of.text.clone(),
            target: of.target.and_then(|target| at(&decoded, target)),
            values: vec![0; columns],
            ..AnnotatedInstruction::default()
        })
        .collect();
    let mut elsewhere = vec![0u64; columns];
    for (address, values) in &code.samples {
        let place = decoded.partition_point(|of| of.address <= *address).checked_sub(1);
        let of = place.filter(|&at| address - decoded[at].address < decoded[at].len as u64);
        let sums = of.map_or(&mut elsewhere, |at| &mut instructions[at].values);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(*value);
        }
    }
    let mut totals = elsewhere;
    for instruction in &instructions {
        for (sum, value) in totals.iter_mut().zip(&instruction.values) {
            *sum = sum.saturating_add(*value);
        }
    }
    let mut annotation = Annotation {
        function: name.to_owned(),
        module: code.module_path.clone(),
        value_types: profile.value_types.clone(),
        totals,
        wholes: (0..columns).map(|column| profile.whole(column)).collect(),
        instructions,
        notes,
        ..Annotation::default()
    };
    lines::name_targets(&mut annotation, &decoded, &code, &options.symbols);
    lines::add_lines(&mut annotation, &mut code, &options.symbols);
    options.sources.add_texts(&mut annotation, &code, &options.symbols);
    Ok(annotation)
}

/// The instruction that begins at an address.
fn at(instructions: &[Instruction], address: u64) -> Option<usize> {
    instructions.binary_search_by_key(&address, |of| of.address).ok()
}
