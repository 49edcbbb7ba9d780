//! The in-kernel engine: BPF programs unwind and count stacks in the kernel, and only totals come out.
//!
//! An [`Engine`] loads the programs (compiled from `src/programs`, and embedded in the binary). It is given the files
//! that are mapped ([`Engine::add_file`]), or asks for them ([`Engine::questions`]), makes their unwind tables, which
//! the programs search, and returns the counts ([`Engine::drain`]).
//!
//! It finds no symbols and knows no file names: files have numbers, and frames refer to them by number. The programs
//! look up mappings of processes themselves, in the kernel's own data structures.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod allocators;
mod builder;
mod cache;
mod command_line;
mod copies;
mod counted;
mod counter;
mod end;
mod engine;
mod error;
mod features;
mod files;
mod free_list;
mod interpreters;
mod kernel_functions;
mod kernel_text;
mod kernel_types;
mod key_texts;
mod layout;
mod load;
mod loader_log;
mod memory;
mod object;
mod options;
mod prepare;
mod probes;
mod rows;
mod scheduler;
mod scope;
mod shared;
mod tables;
mod tracer;
mod trigger;
mod values;

#[cfg(test)]
#[path = "../../unwind/tests/common/mod.rs"]
mod common;
#[cfg(test)]
mod in_user_space;
#[cfg(test)]
mod user_space;
#[cfg(test)]
mod walkers;

pub use builder::{Keeper, Keeping, prefer_this_thread};
pub use command_line::CommandLine;
pub use copies::CopiedStack;
pub use counted::{Counted, UserFrames};
pub use counter::{
    CountKey, CountedEvent, EventCount, EventCounter, EventOptions, EventSum, SumKey,
};
pub use end::End;
pub use engine::{Engine, Stats};
pub use error::{Error, Reason};
pub use features::features;
pub use files::{FileFacts, Question, What};
pub use kernel_functions::KernelTypes;
pub use layout::FileKey;
pub use load::RefusedLanguages;
pub use options::Options;
pub use scheduler::{SchedKey, SchedOptions, SchedTracer};
pub use scope::Scope;
pub use tracer::{CallOptions, CallTracer};
