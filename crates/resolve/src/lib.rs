#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod announced;
mod beyond;
mod chains;
mod collect;
mod copied;
mod counted;
mod cut;
mod deferred;
mod files;
mod frame_rows;
mod frame_table;
mod jit;
mod jit_code;
mod jit_tables;
mod language_frames;
mod languages;
mod lookups;
mod module_ids;
mod modules;
mod moved;
mod names;
mod processes;
mod resolver;
mod run_time_code;
mod sample_stacks;
mod settle;
mod single_stacks;
mod splice;
mod stacks;
mod versions;

pub use collect::Extra;
pub use copied::{CodeReader, CopiedStack, Unread, UnwoundCopy};
pub use counted::{Label, Lookup, OpenedFile};
pub use cut::Cuts;
pub use deferred::{Feed, SampleSource};
pub use files::{
    Files, Identity, LiveFiles, MapWriter, MappedFile, in_root_of, open_regular, own_vdso,
};
pub use languages::{FoundInterpreter, InterpreterVersion, LanguageStats};
pub use module_ids::FileKey;
pub use names::{NameStats, Rename};
pub use pyrograph_language::Unknown;
pub use pyrograph_symbol::{Locator, Options as SymbolOptions, Warning};
pub use pyrograph_unwind::{AddressSpace, Arch, UnreadCode};
pub use resolver::{NATIVE, Options, Resolved, Resolver, Stats};
pub use run_time_code::RunTimeCode;
pub use sample_stacks::SampleStacks;
pub use settle::StackMemory;
pub use single_stacks::{SingleStacks, UserPart};
