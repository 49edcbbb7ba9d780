//! Options for finding sources, and for source and instructions of hot functions in pages.

use pyrograph_analyze::Annotation;
use pyrograph_annotate::{Annotator, Options, SourceDir, Sources, functions};
use pyrograph_format::SymbolOptions;
use pyrograph_profile::Profile;

/// Where sources are.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// Sources whose paths begin with FROM are below TO; can be given several times
    #[arg(long, value_name = "FROM=TO")]
    source_dir: Vec<SourceDir>,
}

impl SourceArgs {
    /// Folders in which sources are searched.
    pub fn sources(&self, symbols: &SymbolOptions) -> Sources {
        Sources { dirs: self.source_dir.clone(), symfs: symbols.locator.symfs.clone() }
    }
}

/// What pages have of code.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct CodeArgs {
    /// Pages without source and instructions of hot functions
    #[arg(long)]
    no_source: bool,

    #[command(flatten)]
    sources: SourceArgs,
}

/// A function is hot from this fraction of the samples on: one 200th, 0.5 %.
const HOT: u64 = 200;

impl CodeArgs {
    /// Annotates the functions with at least 0.5 % of all samples in themselves, most samples first. Functions whose
    /// code is not found are left out.
    pub fn of(&self, profile: &Profile, symbols: &SymbolOptions) -> Vec<Annotation> {
        if self.no_source {
            return Vec::new();
        }
        let whole = profile.whole(profile.shown);
        let sources = self.sources.sources(symbols);
        let mut annotator = Annotator::new(profile, Options { symbols: symbols.clone(), sources });
        let is_hot = |own: u64| own > 0 && own.saturating_mul(HOT) >= whole;
        let hot = functions(profile).into_iter().take_while(|of| is_hot(of.self_value));
        hot.filter_map(|function| annotator.function(&function).ok()).collect()
    }
}
