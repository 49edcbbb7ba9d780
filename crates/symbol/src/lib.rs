//! Addresses in, functions out: name, file, line, and the calls that the compiler inlined.
//!
//! [`Module`] is one ELF file. It is asked once for all its addresses and reads what it needs for
//! them in one pass: symbol tables front to back, of debug information only the units that hold an
//! address, and in those only the functions that do. Separate debug files are found by the
//! [`Locator`], and one of another build is never used in silence ([`Warning`]). [`Kallsyms`] and
//! [`PerfMap`] do the same for the kernel and for code that a process makes as it runs; [`JitDump`]
//! knows times and lines of such code, too.
//!
//! This crate knows nothing of processes, samples or stacks. What stays with the caller: which
//! file is mapped where; that a return address is one past the call (look up the address before
//! it); and threads (a module can be sent to one).
//!
//! Every file is taken to be damaged or hostile until shown otherwise: nothing here panics on
//! what is in a file, follows references without end, or believes a size. [`Module::from_bytes`]
//! and [`Module::symbolize`] are what to fuzz, with [`demangle`], [`Kallsyms::read`],
//! [`PerfMap::parse`] and [`JitDump::open`].
//!
//! ```
//! use std::fs::File;
//!
//! use pyrograph_symbol::{Module, Options, Source};
//!
//! let path = std::env::current_exe()?;
//! let path = path.to_str().ok_or("the path is not text")?;
//! let module = Module::open(&File::open(path)?, Source { path, ..Source::default() })?;
//!
//! // The first byte of the code, as found by a mapping and a sample in it.
//! let segment = module.segments().iter().find(|segment| segment.executable).ok_or("no code")?;
//! let address = module.file_offset_to_address(segment.file_offset).ok_or("not mapped")?;
//! let result = module.symbolize(&[address], &Options::default());
//! for frame in &*result.addresses[0].frames {
//!     println!("{} {}:{}", frame.function, frame.file.as_deref().unwrap_or("??"), frame.line);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build_id;
mod debug;
mod debuginfod;
mod demangle;
mod dwarf;
mod entries;
mod frames;
mod go;
mod image;
mod inline;
mod jitdump;
mod kallsyms;
mod kallsyms_table;
mod lines;
mod locate;
mod module;
mod names;
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

pub use build_id::{BuildId, InvalidBuildId};
pub use debuginfod::Debuginfod;
pub use demangle::demangle;
pub use jitdump::{JitDump, JitDumpDamage, JitDumpError, JitFunction, JitUnwinding};
pub use kallsyms::{Kallsyms, KernelSymbol};
pub use locate::Locator;
pub use module::{Error, Module, Segment, Source};
pub use perf_map::{PerfMap, inlined_names};
pub use places::{StaticProbe, function_code, function_names, static_probes};
pub use running_kernel::{KALLSYMS, RunningKernel};
pub use symbolize::{Frame, Options, Symbolization, Symbolized, Warning};
