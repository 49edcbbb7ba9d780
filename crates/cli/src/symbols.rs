//! Options for the lookup of symbols, shared by all subcommands that read addresses.

use std::path::PathBuf;

use pyrograph_cache::user_folder;
use pyrograph_format::{Locator, SymbolOptions};

/// For inputs that hold addresses, as perf.data does, and profiles of other tools without names.
#[derive(clap::Args)]
#[command(next_help_heading = "Symbols")]
pub struct SymbolArgs {
    /// A copy of the file system of the machine that the input is from
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,

    /// Where separate debug files are; can be given several times
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/debug")]
    debug_dir: Vec<PathBuf>,

    /// Where the files are that ran, by build ID, as `perf archive` packs them [default: ~/.debug]
    #[arg(long, value_name = "DIR")]
    buildid_dir: Option<PathBuf>,

    /// perf.data: leave out the calls that the compiler inlined
    #[arg(long)]
    no_inline: bool,

    /// perf.data: read all kernel symbols and decompress debug information anew, and keep nothing of it in
    /// ~/.cache/pyrograph for the next time
    #[arg(long)]
    no_cache: bool,
}

impl SymbolArgs {
    /// Options for the resolver. Source lines are off: subcommands that show lines turn them on.
    pub fn options(&self) -> SymbolOptions {
        let usual = Locator::default();
        let locator = Locator {
            debug_dirs: self.debug_dir.clone(),
            symfs: self.symfs.clone(),
            build_id_cache: self.buildid_dir.clone().or(usual.build_id_cache),
            ..usual
        };
        SymbolOptions {
            inlines: !self.no_inline,
            lines: false,
            locator,
            cache: (!self.no_cache).then(user_folder).flatten(),
        }
    }
}
