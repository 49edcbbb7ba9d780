#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod build_id;
mod debug;
mod debuginfod;
mod demangle;
mod dwarf;
mod embedded;
mod entries;
mod extent;
mod frames;
mod function_name;
mod go;
mod inline;
mod jitdump;
mod kallsyms;
mod kallsyms_table;
mod kept;
mod lines;
mod locate;
mod module;
mod names;
mod package;
mod perf_map;
mod places;
mod plt;
mod running_kernel;
mod scopes;
mod split;
mod symbolize;
mod symbols;
mod timeline;
mod unpacked;
mod v8;

pub use build_id::{BuildId, InvalidBuildId};
pub use debuginfod::Debuginfod;
pub use demangle::{demangle, demangle_with_parameters};
pub use jitdump::{JitDump, JitDumpDamage, JitDumpError, JitFunction, JitUnwinding};
pub use kallsyms::{Kallsyms, KernelSymbol};
pub use locate::Locator;
pub use module::{Error, Module, Source, open_image};
pub use package::debug_package;
pub use perf_map::{PerfMap, inlined_names};
pub use places::{StaticProbe, function_code, function_names, static_probes};
pub use pyrograph_elf::Segment;
pub use running_kernel::{KALLSYMS, RunningKernel, running_kernel_build_id};
pub use symbolize::{Frame, Options, Symbolization, Symbolized, Warning};
