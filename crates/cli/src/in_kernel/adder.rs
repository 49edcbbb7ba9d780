//! What the programs have counted, as the resolver takes it.

use pyrograph_bpf::Counted;
use pyrograph_resolve::{LiveFiles, Resolver};

use crate::answers;

/// Adds what was counted to the profile.
pub struct Adder<'a> {
    /// What takes it.
    pub resolver: &'a mut Resolver<LiveFiles>,
    /// The function whose returns are counted.
    pub returned: Option<&'a str>,
}

impl Adder<'_> {
    /// Adds it to the profile.
    pub fn add(&mut self, counted: Counted<'_>) {
        let labels = answers::labels(counted.kind, self.returned);
        self.resolver.counted(counted, &labels);
    }
}
