//! Source and instructions of hot functions, for pages.

use pyrograph_analyze::Annotation;
use pyrograph_annotate::{Annotator, Options, Sources, functions};
use pyrograph_format::SymbolOptions;
use pyrograph_profile::Profile;

/// What pages have of code.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct CodeArgs {
    /// Pages without source and instructions of hot functions
    #[arg(long)]
    no_source: bool,
}

/// One part of so many is enough for a function to be hot: 0.5 %.
const HOT: u64 = 200;

impl CodeArgs {
    /// The functions with at least 0.5 % of all samples of their own, most samples first. Those whose code is not to be had
    /// are left out.
    pub fn of(&self, profile: &Profile, symbols: &SymbolOptions) -> Vec<Annotation> {
        if self.no_source {
            return Vec::new();
        }
        let whole = profile.whole(profile.shown);
        let sources = Sources { dirs: Vec::new(), symfs: symbols.locator.symfs.clone() };
        let mut annotator = Annotator::new(profile, Options { symbols: symbols.clone(), sources });
        let is_hot = |own: u64| own > 0 && own.saturating_mul(HOT) >= whole;
        let hot = functions(profile).into_iter().take_while(|of| is_hot(of.self_value));
        hot.filter_map(|function| annotator.function(&function).ok()).collect()
    }
}
