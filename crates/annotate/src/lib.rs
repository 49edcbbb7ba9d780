#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod choose;
mod code;
mod jit;
mod kernel;
mod lines;
mod packed;
mod sources;
mod vmlinux;

use pyrograph_analyze::{AnnotatedInstruction, Annotation};
use pyrograph_disassemble::{Instruction, disassemble};
use pyrograph_profile::Profile;
use pyrograph_symbol::Options as SymbolOptions;
use thiserror::Error;

use crate::choose::Located;
pub use crate::choose::{Function, functions, named_functions};
use crate::code::{Code, Modules};
use crate::packed::Packed;
pub use crate::sources::{SourceDir, SourceTexts, Sources};

/// Places in which to look for code and sources.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Places of modules and their debug files.
    pub symbols: SymbolOptions,
    /// Places of source files.
    pub sources: Sources,
}

/// Reason why a function cannot be annotated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No sample has an address.
    #[error(
        "the input has no addresses of instructions: perf.data, and pprof and pages of `pyrograph record` have them"
    )]
    NoAddresses,
    /// No function of a sample with an address has a name.
    #[error("no function that samples are in has a name: the files that ran are gone, or stripped")]
    NoNames,
    /// No sample is in a function of this name.
    #[error("no sample is in a function {name}{}", choose::similar_text(similar))]
    NoFunction {
        /// The requested name.
        name: String,
        /// Functions with similar names, or with the most samples.
        similar: Vec<String>,
    },
    /// The code of the function is not available.
    #[error("{0}")]
    NoCode(String),
}

/// Maximum number of instructions of a function; the largest ones in the kernel and in interpreters have a tenth of it.
const MOST_INSTRUCTIONS: usize = 1 << 17;

/// Annotates functions of a profile; each file is opened once.
#[derive(Debug)]
pub struct Annotator<'a> {
    profile: &'a Profile,
    options: Options,
    modules: Modules,
    packed: Vec<Packed>,
}

impl<'a> Annotator<'a> {
    /// Creates an annotator. No file is opened yet.
    pub fn new(profile: &'a Profile, options: Options) -> Self {
        Self { profile, options, modules: Modules::default(), packed: packed::all(profile) }
    }

    /// Annotates the function with this name: its full name, or, if there is none, its name without parameters, or the
    /// last part of its path. Of several functions the one with the most samples is used, and a note says so.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such function, or if its code cannot be found.
    pub fn named(&mut self, name: &str) -> Result<Annotation, Error> {
        let (function, notes) = choose::choose(self.profile, name)?;
        self.annotate(&function, notes)
    }

    /// Annotates a function from the list returned by [`functions`].
    ///
    /// # Errors
    ///
    /// Returns an error if its code cannot be found.
    pub fn function(&mut self, function: &Function) -> Result<Annotation, Error> {
        self.annotate(function, Vec::new())
    }

    fn annotate(
        &mut self,
        function: &Function,
        mut notes: Vec<String>,
    ) -> Result<Annotation, Error> {
        let (profile, options) = (self.profile, &self.options);
        let name = profile.strings.get(function.name);
        let modules = &mut self.modules;
        let packed = packed::find(&self.packed, function, name, profile);
        let code = Code::find(function, name, profile, &options.symbols, modules, &mut notes);
        let mut code = match code {
            Ok(code) => code,
            Err(error) => return packed.ok_or(error),
        };
        let decoded = decode(&code, &mut notes);
        let columns = profile.value_types.len();
        let mut instructions: Vec<AnnotatedInstruction> = decoded
            .iter()
            .map(|of| AnnotatedInstruction {
                address: of.address,
                text: with_data(of),
                target: of.target.and_then(|target| at(&decoded, target)),
                values: vec![0; columns],
                ..AnnotatedInstruction::default()
            })
            .collect();
        let totals = count(&code.samples, &mut instructions, |at| decoded[at].len as u64, columns);
        let mut annotation = Annotation {
            function: name.to_owned(),
            module: code.module_path.clone(),
            value_types: profile.value_types.clone(),
            totals,
            wholes: (0..columns).map(|column| profile.whole(column)).collect(),
            build_id: function.build_id.clone(),
            bias: code.bias,
            instructions,
            notes,
            ..Annotation::default()
        };
        lines::name_targets(&mut annotation, &decoded, &code, &options.symbols);
        lines::add_lines(&mut annotation, &mut code, &options.symbols);
        options.sources.add_texts(&mut annotation, &code, &options.symbols);
        if let Some(packed) = packed {
            packed::add_texts(&mut annotation, &packed);
        }
        Ok(annotation)
    }
}

/// Returns the text with the address of the data that it refers to, as in `objdump`: `mov 0x2ee4(%rip),%eax  # 4010`.
fn with_data(instruction: &Instruction) -> String {
    match instruction.data {
        Some(place) => format!("{}  # {place:x}", instruction.text),
        None => instruction.text.clone(),
    }
}

fn decode(code: &Code, notes: &mut Vec<String>) -> Vec<Instruction> {
    let all = disassemble(code.arch, &code.bytes, code.start);
    let mut decoded: Vec<Instruction> = all.take(MOST_INSTRUCTIONS + 1).collect();
    if decoded.len() > MOST_INSTRUCTIONS {
        decoded.truncate(MOST_INSTRUCTIONS);
        notes.push(format!("only the first {MOST_INSTRUCTIONS} instructions are shown"));
    }
    decoded
}

/// Adds each sample to the instruction that contains its address. Returns the sums of all samples, including those
/// outside of instructions. `len` returns the length of an instruction in bytes, or an upper limit for it.
fn count(
    samples: &[Located],
    instructions: &mut [AnnotatedInstruction],
    len: impl Fn(usize) -> u64,
    columns: usize,
) -> Vec<u64> {
    let mut totals = vec![0u64; columns];
    for (address, values) in samples {
        let place = instructions.partition_point(|of| of.address <= *address).checked_sub(1);
        let holder = place.filter(|&at| address - instructions[at].address < len(at));
        let mut none = Vec::new();
        let sums = holder.map_or(&mut none, |at| &mut instructions[at].values);
        for sums in [sums, &mut totals] {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = sum.saturating_add(*value);
            }
        }
    }
    totals
}

/// Returns the index of the instruction that begins at an address.
fn at(instructions: &[Instruction], address: u64) -> Option<usize> {
    instructions.binary_search_by_key(&address, |of| of.address).ok()
}
