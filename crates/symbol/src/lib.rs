//! Addresses in, functions out: name, file, line, and the calls that the compiler inlined.

mod build_id;
mod debug;
mod demangle;
mod dwarf;
mod frames;
mod image;
mod inline;
mod kallsyms;
mod lines;
mod locate;
mod module;
mod names;
mod perf_map;
mod plt;
mod scopes;
mod split;
mod symbolize;
mod symbols;

pub use build_id::{BuildId, InvalidBuildId};
pub use demangle::demangle;
pub use kallsyms::{Kallsyms, KernelSymbol};
pub use locate::Locator;
pub use module::{Error, Module, Segment, Source};
pub use perf_map::PerfMap;
pub use symbolize::{Frame, Options, Symbolization, Symbolized, Warning};
