//! Options for the in-kernel engine's unwind tables: their memory, and their cache.

use std::path::PathBuf;

use pyrograph_cache::user_folder;

use crate::units::parse_size;

/// The flags.
#[derive(clap::Args, Clone, Copy)]
pub struct TableArgs {
    /// The most memory for unwind tables in the kernel: what is used least is left out [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = parse_budget)]
    table_memory: Option<usize>,

    /// Take stacks of waits when threads stop to run, as older kernels need it, and not when they go on
    #[arg(long, hide = true)]
    pub at_switches: bool,

    /// Do not find callers by what the instructions say where code has no unwind table: such stacks end there
    #[arg(long)]
    pub no_guess: bool,

    /// Make all unwind tables anew, read all kernel symbols and decompress debug information, and keep none
    /// in ~/.cache/pyrograph for the next recording
    #[arg(long)]
    no_cache: bool,
}

impl TableArgs {
    /// Maximum size of all unwind tables in bytes.
    pub fn budget(&self) -> usize {
        self.table_memory.unwrap_or(256 << 20)
    }

    /// Returns true if an option for unwind tables in the kernel is set.
    pub fn is_of_tables(&self) -> bool {
        self.table_memory.is_some()
    }

    /// Folder of the cache; `None` if it is off.
    pub fn cache(&self) -> Option<PathBuf> {
        (!self.no_cache).then(user_folder).flatten()
    }
}

fn parse_budget(text: &str) -> Result<usize, String> {
    match parse_size(text)? {
        size @ 0x10_0000..=0x4000_0000 => Ok(size),
        _ => Err("must be from 1M to 1G".to_owned()),
    }
}
